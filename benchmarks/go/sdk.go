package main

import (
	"context"
	"os"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

// sdk sends by the official producer, as users have it: one for all workers.
func sdk(options Options) (Figures, error) {
	folder, err := os.MkdirTemp("", "sdk-log-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	for key, value := range map[string]string{"rocketmq.client.logRoot": folder, "rocketmq.client.logLevel": "error"} {
		if err := os.Setenv(key, value); err != nil {
			return nil, err
		}
	}
	rmq.ResetLogger()
	rmq.EnableSsl = false
	config := &rmq.Config{Endpoint: options.address, Credentials: &credentials.SessionCredentials{}}
	producer, err := rmq.NewProducer(config, rmq.WithTopics(options.topic))
	if err != nil {
		return nil, err
	}
	if err := producer.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = producer.GracefulStop() }()
	body := make([]byte, options.size)
	work := func(int) error {
		_, err := producer.Send(context.Background(), &rmq.Message{Topic: options.topic, Body: body})
		return err
	}
	if err := work(0); err != nil {
		return nil, err
	}
	return keepBusy(options, work), nil
}
