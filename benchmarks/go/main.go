// Load for servers of RocketMQ's gRPC protocol: one command for each thing that is measured. The last line of the
// output is one JSON object.
//
//	load send --address 127.0.0.1:8081 --topic bench --connections 8 --depth 32 --size 400 --seconds 1
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Options of all commands; each takes what it needs.
type Options struct {
	address     string
	topic       string
	group       string
	connections int
	depth       int
	size        int
	total       int
	rate        float64
	seconds     float64
}

// Figures are what a command measured.
type Figures map[string]float64

var commands = map[string]func(Options) (Figures, error){
	"first":   first,
	"latency": latency,
	"receive": receive,
	"sdk":     sdk,
	"send":    send,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fail(fmt.Errorf("the first argument is one of first, latency, receive, sdk, send"))
	}
	var options Options
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&options.address, "address", "127.0.0.1:8081", "of the server")
	flags.StringVar(&options.topic, "topic", "bench", "that is used")
	flags.StringVar(&options.group, "group", "bench", "of consumers")
	flags.IntVar(&options.connections, "connections", 1, "in all")
	flags.IntVar(&options.depth, "depth", 1, "calls in flight on each connection")
	flags.IntVar(&options.size, "size", 400, "of bodies, in bytes")
	flags.IntVar(&options.total, "total", 0, "messages; 0 lets the time decide")
	flags.Float64Var(&options.rate, "rate", 200, "messages a second, for latency")
	flags.Float64Var(&options.seconds, "seconds", 1, "how long")
	_ = flags.Parse(os.Args[2:])
	figures, err := commands[os.Args[1]](options)
	if err != nil {
		fail(err)
	}
	said, _ := json.Marshal(figures)
	fmt.Println(string(said))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Watch tells how long something took, and how busy this process was meanwhile.
type Watch struct {
	begun time.Time
	used  time.Duration
}

func startWatch() Watch {
	return Watch{time.Now(), processorTime()}
}

func (watch Watch) seconds() float64 {
	return time.Since(watch.begun).Seconds()
}

// busy is the share of a core.
func (watch Watch) busy() float64 {
	return (processorTime() - watch.used).Seconds() / watch.seconds()
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
