// Runs scenarios of the official Go client against a name server and prints one line of JSON for each.
// Usage: interop NAMESRV [SCENARIO…]; without names, all of them.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type scenario func(*stage)

var scenarios = map[string]scenario{}

// disturbing scenarios restart servers, which no other scenario should have to live with.
var disturbing = map[string]bool{"restartBroker": true, "killBroker": true, "restartNamesrv": true}

const atOnce = 6

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
	// Scenarios wait most of the time; what is done to the servers would disturb the others.
	places := make(chan struct{}, atOnce)
	var calm sync.WaitGroup
	for _, name := range wanted {
		if disturbing[name] {
			continue
		}
		calm.Add(1)
		places <- struct{}{}
		go func(name string) {
			defer calm.Done()
			say(run(os.Args[1], name))
			<-places
		}(name)
	}
	calm.Wait()
	for _, name := range wanted {
		if disturbing[name] {
			say(run(os.Args[1], name))
		}
	}
	os.Exit(0) // whatever threads a failed scenario left behind
}

// say prints one line: a single write, so that lines of scenarios that end together do not mix.
func say(what outcome) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n'))
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
