package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

// latency sends at a fixed rate while a receive waits, and measures from before the send to the arrival.
func latency(options Options) (Figures, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	consumer, err := consumer(ctx, options)
	if err != nil {
		return nil, err
	}
	defer consumer.close()
	producer, err := connect(options.address)
	if err != nil {
		return nil, err
	}
	defer producer.close()
	run := time.Now().UnixNano()
	var lock sync.Mutex
	var waits []float64
	arrived := func(message *v2.Message) {
		sent := int64(binary.BigEndian.Uint64(message.Body))
		if sent >= run {
			lock.Lock()
			waits = append(waits, float64(time.Now().UnixNano()-sent)/1e6)
			lock.Unlock()
		}
		go func() { _ = consumer.ack(ctx, message) }()
	}
	go func() {
		for ctx.Err() == nil {
			if err := consumer.poll(ctx, pollingTime, arrived); err != nil && ctx.Err() == nil {
				fmt.Println(err)
				time.Sleep(10 * time.Millisecond)
			}
		}
	}()
	watch := startWatch()
	count, failed := produce(producer, options)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		lock.Lock()
		all := len(waits) >= count-failed
		lock.Unlock()
		if all {
			break
		}
	}
	lock.Lock()
	defer lock.Unlock()
	if len(waits) < count-failed {
		return nil, fmt.Errorf("%d of %d messages arrived", len(waits), count-failed)
	}
	slices.Sort(waits)
	at := func(share float64) float64 { return waits[min(len(waits)-1, int(share*float64(len(waits))))] }
	return Figures{
		"p50": at(0.5), "p99": at(0.99), "answered": float64(count), "failed": float64(failed), "busy": watch.busy(),
	}, nil
}

// produce tells how many messages it sent, and how many of them were refused.
func produce(producer *Client, options Options) (count int, failed int) {
	var group sync.WaitGroup
	var lock sync.Mutex
	pause := time.Duration(float64(time.Second) / options.rate)
	count = int(options.rate * options.seconds)
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for range count {
		<-ticker.C
		group.Add(1)
		go func() {
			defer group.Done()
			body := make([]byte, max(8, options.size))
			binary.BigEndian.PutUint64(body, uint64(time.Now().UnixNano()))
			if err := producer.sendOne(context.Background(), options.topic, body); err != nil {
				lock.Lock()
				failed++
				lock.Unlock()
			}
		}()
	}
	group.Wait()
	return count, failed
}
