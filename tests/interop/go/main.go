// Runs scenarios of the official Go client against a name server and prints one line of JSON for each.
// Usage: interop NAMESRV [SCENARIO…]; without names, all of them.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type scenario func(*stage)

var scenarios = map[string]scenario{}

type outcome struct {
	Scenario string `json:"scenario"`
	Ok       bool   `json:"ok"`
	Ms       int64  `json:"ms"`
	Fault    string `json:"fault,omitempty"`
}

func main() {
	rlog.SetLogLevel("fatal")
	wanted := os.Args[2:]
	if len(wanted) == 0 {
		for name := range scenarios {
			wanted = append(wanted, name)
		}
	}
	for _, name := range wanted {
		line, err := json.Marshal(run(os.Args[1], name))
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
	os.Exit(0) // whatever threads a failed scenario left behind
}

// run turns the panic that ends a failed scenario into its outcome.
func run(namesrv, name string) (result outcome) {
	begin := time.Now()
	here := newStage(namesrv, name)
	defer func() {
		fault := recover()
		here.close()
		result = outcome{Scenario: name, Ok: fault == nil, Ms: time.Since(begin).Milliseconds()}
		if fault != nil {
			result.Fault = fmt.Sprint(fault)
		}
	}()
	scenarios[name](here)
	return
}
