package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	requestTimeout  = 10 * time.Second // patience on a busy machine
	messageNotFound = 40401            // how a poll that found nothing ends
)

// command is the union of what commands take.
type command struct {
	ID          int
	Do          string
	Client      string
	Topics      []string
	Topic       string
	Group       string
	Tag, Sql    *string
	Credentials []string
	Message     messageOrID
	Outcome     string
	Handle      string
	Wait        int
	Max         int32
	Invisible   int
	Seconds     int
}

type empty struct{}

type receipt struct {
	ID     string `json:"id"`
	Recall string `json:"recall,omitempty"`
}

type stoppable interface{ GracefulStop() error }

// clients are those that were started, by name, with what their consumers got.
type clients struct {
	endpoint string
	lock     sync.Mutex
	open     map[string]stoppable
	received map[string]*rmq.MessageView
	attempts map[string]int
}

func newClients(endpoint string) *clients {
	return &clients{endpoint: endpoint, open: map[string]stoppable{}, received: map[string]*rmq.MessageView{},
		attempts: map[string]int{}}
}

func (c *clients) carryOut(what command) (any, error) {
	switch what.Do {
	case "producer":
		return c.producer(what)
	case "push":
		return c.push(what)
	case "simple":
		return c.simple(what)
	case "close":
		return empty{}, c.client(what.Client).GracefulStop()
	}
	switch client := c.client(what.Client).(type) {
	case rmq.Producer:
		return c.produce(client, what)
	case rmq.SimpleConsumer:
		return c.consume(client, what)
	}
	return nil, fmt.Errorf("no such command: %v", what.Do)
}

func (c *clients) client(name string) stoppable {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.open[name]
}

func (c *clients) started(name string, client stoppable, start func() error) (any, error) {
	c.lock.Lock()
	c.open[name] = client
	c.lock.Unlock()
	return empty{}, start()
}

func (c *clients) config(what command) *rmq.Config {
	secrets := &credentials.SessionCredentials{}
	if len(what.Credentials) == 2 {
		secrets.AccessKey, secrets.AccessSecret = what.Credentials[0], what.Credentials[1]
	}
	return &rmq.Config{Endpoint: c.endpoint, ConsumerGroup: what.Group, Credentials: secrets}
}

func (c *clients) producer(what command) (any, error) {
	check := func(view *rmq.MessageView) rmq.TransactionResolution {
		say(event{"check", what.Client, told(view)})
		if view.GetProperties()["outcome"] == "commit" {
			return rmq.COMMIT
		}
		return rmq.ROLLBACK
	}
	client, err := rmq.NewProducer(c.config(what), rmq.WithTopics(what.Topics...),
		rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: check}))
	if err != nil {
		return nil, err
	}
	client.SetRequestTimeout(requestTimeout)
	return c.started(what.Client, client, client.Start)
}

func (c *clients) produce(client rmq.Producer, what command) (any, error) {
	ctx := context.Background()
	switch what.Do {
	case "send":
		return receipts(client.Send(ctx, what.Message.made()))
	case "recall":
		id, err := client.Recall(ctx, what.Topic, what.Handle)
		return receipt{ID: id}, err
	case "transaction":
		transaction := client.BeginTransaction()
		sent, err := receipts(client.SendWithTransaction(ctx, what.Message.made(), transaction))
		if err == nil && what.Outcome == "commit" {
			err = transaction.Commit()
		} else if err == nil && what.Outcome == "rollback" {
			err = transaction.RollBack()
		}
		return sent, err
	}
	return nil, fmt.Errorf("not for a producer: %v", what.Do)
}

func receipts(sent []*rmq.SendReceipt, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return receipt{ID: sent[0].MessageID, Recall: sent[0].RecallHandle}, nil
}

func subscription(what command) map[string]*rmq.FilterExpression {
	filter := rmq.SUB_ALL
	if what.Tag != nil {
		filter = rmq.NewFilterExpression(*what.Tag)
	} else if what.Sql != nil {
		filter = rmq.NewFilterExpressionWithType(*what.Sql, rmq.SQL92)
	}
	return map[string]*rmq.FilterExpression{what.Topic: filter}
}

func (c *clients) push(what command) (any, error) {
	listen := func(view *rmq.MessageView) rmq.ConsumerResult {
		say(event{"message", what.Client, told(view)})
		failures, _ := strconv.Atoi(view.GetProperties()["failures"])
		if c.attempt(what.Client+view.GetMessageId()) <= failures {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}
	client, err := rmq.NewPushConsumer(c.config(what), rmq.WithPushSubscriptionExpressions(subscription(what)),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: listen}))
	if err != nil {
		return nil, err
	}
	return c.started(what.Client, client, client.Start)
}

func (c *clients) attempt(key string) int {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.attempts[key]++
	return c.attempts[key]
}

func (c *clients) simple(what command) (any, error) {
	client, err := rmq.NewSimpleConsumer(c.config(what), rmq.WithSimpleSubscriptionExpressions(subscription(what)),
		rmq.WithSimpleAwaitDuration(time.Duration(what.Wait)*time.Second))
	if err != nil {
		return nil, err
	}
	client.SetRequestTimeout(requestTimeout)
	return c.started(what.Client, client, client.Start)
}

func (c *clients) consume(client rmq.SimpleConsumer, what command) (any, error) {
	ctx := context.Background()
	switch what.Do {
	case "receive":
		return c.receive(client, what)
	case "ack":
		return empty{}, client.Ack(ctx, c.view(what))
	case "hide":
		return empty{}, client.ChangeInvisibleDuration(c.view(what), time.Duration(what.Seconds)*time.Second)
	}
	return nil, fmt.Errorf("not for a simple consumer: %v", what.Do)
}

func (c *clients) receive(client rmq.SimpleConsumer, what command) (any, error) {
	views, err := client.Receive(context.Background(), what.Max, time.Duration(what.Invisible)*time.Second)
	if status, known := rmq.AsErrRpcStatus(err); known && status.Code == messageNotFound {
		err = nil
	}
	messages := []message{}
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, view := range views {
		c.received[what.Client+view.GetMessageId()] = view
		messages = append(messages, told(view))
	}
	return map[string]any{"messages": messages}, err
}

func (c *clients) view(what command) *rmq.MessageView {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.received[what.Client+what.Message.ID]
}
