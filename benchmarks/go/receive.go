package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Consumer is a client that has introduced itself.
type Consumer struct {
	*Client
	options Options
	queue   *v2.MessageQueue
}

func consumer(ctx context.Context, options Options) (*Consumer, error) {
	client, err := connect(options.address)
	if err != nil {
		return nil, err
	}
	queue, err := client.queue(ctx, options)
	if err == nil {
		err = client.introduce(ctx, options)
	}
	if err != nil {
		client.close()
		return nil, err
	}
	return &Consumer{client, options, queue}, nil
}

// poll waits for messages up to a time, and hands out each as it arrives.
func (consumer *Consumer) poll(ctx context.Context, wait time.Duration, take func(*v2.Message)) error {
	ctx, cancel := context.WithTimeout(ctx, max(wait, 5*time.Second)+requestTimeout)
	defer cancel()
	stream, err := consumer.ReceiveMessage(consumer.context(ctx), &v2.ReceiveMessageRequest{
		Group:              resource(consumer.options.group),
		MessageQueue:       consumer.queue,
		FilterExpression:   everything(),
		BatchSize:          batchSize,
		InvisibleDuration:  durationpb.New(invisible),
		LongPollingTimeout: durationpb.New(wait),
	})
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if message := answer.GetMessage(); message != nil {
			take(message)
		}
		status := answer.GetStatus()
		if status != nil && status.Code != v2.Code_OK && status.Code != v2.Code_MESSAGE_NOT_FOUND {
			return fmt.Errorf("nothing to receive: %v", status)
		}
	}
}

// ack confirms one message, as SDKs do.
func (consumer *Consumer) ack(ctx context.Context, message *v2.Message) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	entry := &v2.AckMessageEntry{
		MessageId:     message.SystemProperties.MessageId,
		ReceiptHandle: message.SystemProperties.GetReceiptHandle(),
	}
	answer, err := consumer.AckMessage(consumer.context(ctx), &v2.AckMessageRequest{
		Group:   resource(consumer.options.group),
		Topic:   message.Topic,
		Entries: []*v2.AckMessageEntry{entry},
	})
	if err == nil && answer.Status.Code != v2.Code_OK {
		err = fmt.Errorf("ack refused: %v", answer.Status)
	}
	return err
}

// receive takes and acknowledges a backlog of `total` messages; with none it only makes the group known.
func receive(options Options) (Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(options.seconds*float64(time.Second)))
	defer cancel()
	var received, acknowledged, failed, polls atomic.Int64
	var group sync.WaitGroup
	watch := startWatch()
	for range options.connections {
		consumer, err := consumer(ctx, options)
		if err != nil {
			return nil, err
		}
		defer consumer.close()
		if options.total == 0 {
			return Figures{}, consumer.poll(ctx, time.Second, func(*v2.Message) {})
		}
		for range options.depth {
			group.Add(1)
			go func() {
				defer group.Done()
				for received.Load() < int64(options.total) && ctx.Err() == nil {
					var acks sync.WaitGroup
					polls.Add(1)
					err := consumer.poll(ctx, time.Second, func(message *v2.Message) {
						received.Add(1)
						acks.Add(1)
						go func() {
							defer acks.Done()
							if consumer.ack(ctx, message) != nil {
								failed.Add(1)
							}
							acknowledged.Add(1)
						}()
					})
					acks.Wait()
					if err != nil && ctx.Err() == nil {
						failed.Add(1)
						fmt.Println(err)
						time.Sleep(10 * time.Millisecond)
					}
				}
			}()
		}
	}
	if options.total > 0 {
		awaitAll(ctx, &acknowledged, int64(options.total))
	}
	seconds, busy := watch.seconds(), watch.busy()
	// What is under way when all have arrived is called off, which is no failure.
	count, refused := acknowledged.Load(), failed.Load()
	cancel()
	group.Wait()
	if count < int64(options.total) {
		return nil, fmt.Errorf("%d of %d messages were received within %.0f s", count, options.total, options.seconds)
	}
	return Figures{
		"answered":   float64(count),
		"failed":     float64(refused),
		"per_second": float64(count) / seconds,
		"polls":      float64(polls.Load()),
		"busy":       busy,
	}, nil
}

func awaitAll(ctx context.Context, count *atomic.Int64, total int64) {
	for count.Load() < total && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
}
