package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// send keeps so many calls in flight on each connection, until the time is over or all is sent.
func send(options Options) (Figures, error) {
	body := make([]byte, options.size)
	for at := range body {
		body[at] = byte('a' + at%26)
	}
	clients := make([]*Client, options.connections)
	for at := range clients {
		client, err := connect(options.address)
		if err != nil {
			return nil, err
		}
		defer client.close()
		if err := client.sendOne(context.Background(), options.topic, body); err != nil {
			return nil, err
		}
		clients[at] = client
	}
	work := func(worker int) error {
		return clients[worker%len(clients)].sendOne(context.Background(), options.topic, body)
	}
	return keepBusy(options, work), nil
}

// keepBusy has all workers call over and over, and counts.
func keepBusy(options Options, work func(worker int) error) Figures {
	var taken, answered, failed atomic.Int64
	var group sync.WaitGroup
	var reason atomic.Value
	watch := startWatch()
	end := time.Now().Add(time.Duration(options.seconds * float64(time.Second)))
	for worker := range options.connections * options.depth {
		group.Add(1)
		go func() {
			defer group.Done()
			for goesOn(options, &taken, end) {
				if err := work(worker); err != nil {
					failed.Add(1)
					reason.Store(err.Error())
				}
				answered.Add(1)
			}
		}()
	}
	group.Wait()
	if reason.Load() != nil {
		fmt.Println("the last failure:", reason.Load())
	}
	return Figures{
		"answered":   float64(answered.Load()),
		"failed":     float64(failed.Load()),
		"per_second": float64(answered.Load()) / watch.seconds(),
		"busy":       watch.busy(),
	}
}

func goesOn(options Options, taken *atomic.Int64, end time.Time) bool {
	if options.total > 0 {
		return taken.Add(1) <= int64(options.total)
	}
	return time.Now().Before(end)
}

// first asks a server that is about to start until it accepts a message.
func first(options Options) (Figures, error) {
	client, err := connect(options.address)
	if err != nil {
		return nil, err
	}
	defer client.close()
	watch := startWatch()
	for watch.seconds() < options.seconds {
		if err = client.sendOne(context.Background(), options.topic, make([]byte, options.size)); err == nil {
			return Figures{"seconds": watch.seconds()}, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, fmt.Errorf("nothing was accepted: %w", err)
}
