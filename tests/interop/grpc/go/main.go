// Reads commands as lines of JSON, has clients of the official gRPC library carry them out, and writes answers and
// events. Usage: driver HOST:PORT tls|plain. The commands are described where the program that starts this keeps them.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

// answer is what becomes of a command: one of ok and error.
type answer struct {
	ID    int    `json:"id"`
	Ok    any    `json:"ok,omitempty"`
	Error string `json:"error,omitempty"`
	Code  int32  `json:"code,omitempty"`
}

type event struct {
	Event   string  `json:"event"`
	Client  string  `json:"client"`
	Message message `json:"message"`
}

var writing sync.Mutex

func main() {
	rmq.EnableSsl = os.Args[2] == "tls"
	clients := newClients(os.Args[1])
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		var what command
		if err := json.Unmarshal(line, &what); err != nil {
			panic(err)
		}
		go func() { say(carriedOut(clients, what)) }()
	}
}

func carriedOut(clients *clients, what command) (result answer) {
	result.ID = what.ID
	defer func() {
		if fault := recover(); fault != nil {
			result.Ok, result.Error = nil, fmt.Sprint("panic: ", fault)
		}
	}()
	ok, err := clients.carryOut(what)
	if err == nil {
		result.Ok = ok
		return
	}
	result.Error = err.Error()
	if status, told := rmq.AsErrRpcStatus(err); told {
		result.Code = status.Code
	}
	return
}

// say prints one line; those that are said at the same time do not mix.
func say(what any) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	writing.Lock()
	defer writing.Unlock()
	os.Stdout.Write(append(line, '\n'))
}
