package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func init() {
	scenarios["tags"] = tags
	scenarios["sql92"] = sql92
	scenarios["concurrent"] = concurrent
	scenarios["orderly"] = orderly
	scenarios["broadcast"] = broadcast
	scenarios["litePull"] = litePull
	scenarios["litePullAssign"] = litePullAssign
	scenarios["sharing"] = sharing
	scenarios["offsetReset"] = offsetReset
}

func tags(s *stage) {
	p := s.producer()
	for _, tag := range []string{"a", "b", "c", "a", "b"} {
		_, err := p.SendSync(context.Background(), s.message(tag).WithTag(tag))
		must(err)
	}
	some := s.collect(s.unique("G"), s.topic(), "a || b")
	every := s.collect(s.unique("G"), s.topic(), "*")
	some.wait(4)
	every.wait(5)
	equal([]string{"a", "a", "b", "b"}, some.bodies(), "a || b")
	equal([]string{"a", "a", "b", "b", "c"}, every.bodies(), "*")
}

func sql92(s *stage) {
	p := s.producer()
	for n := 0; n < 10; n++ {
		message := s.message(fmt.Sprintf("m%03d", n))
		message.WithProperty("n", fmt.Sprint(n))
		_, err := p.SendSync(context.Background(), message)
		must(err)
	}
	got := &inbox{}
	s.consume(s.group(), s.topic(), consumer.MessageSelector{Type: consumer.SQL92, Expression: "n BETWEEN 2 AND 5"},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			got.put(messages...)
			return consumer.ConsumeSuccess, nil
		})
	got.wait(4)
	equal(names("m", 6)[2:], got.bodies(), "matches")
}

func concurrent(s *stage) {
	p := s.producer()
	for _, body := range names("m", 200) {
		_, err := p.SendSync(context.Background(), s.message(body))
		must(err)
	}
	got := s.collect(s.group(), s.topic(), "*")
	got.wait(200)
	equal(names("m", 200), got.bodies(), "messages")
}

func orderly(s *stage) {
	p := s.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	for n := 0; n < 60; n++ {
		message := s.message(fmt.Sprintf("m%03d", n)).WithShardingKey(fmt.Sprint(n % 3))
		_, err := p.SendSync(context.Background(), message)
		must(err)
	}
	got := s.collect(s.group(), s.topic(), "*", consumer.WithConsumerOrder(true))
	last := map[int]int64{}
	for _, message := range got.wait(60) {
		queue := message.Queue.QueueId
		if before, seen := last[queue]; seen {
			equal(before+1, message.QueueOffset, "order")
		}
		last[queue] = message.QueueOffset
	}
}

func broadcast(s *stage) {
	p := s.producer()
	_, err := p.SendSync(context.Background(), s.message("m000"))
	must(err)
	model := consumer.WithConsumerModel(consumer.BroadCasting)
	inboxes := []*inbox{s.collect(s.group(), s.topic(), "*", model), s.collect(s.group(), s.topic(), "*", model)}
	for _, body := range names("m", 20)[1:] {
		_, err := p.SendSync(context.Background(), s.message(body))
		must(err)
	}
	for _, got := range inboxes {
		got.wait(20)
		equal(names("m", 20), got.bodies(), "messages")
	}
}

func litePull(s *stage) {
	p := s.producer()
	for _, body := range names("m", 50) {
		_, err := p.SendSync(context.Background(), s.message(body))
		must(err)
	}
	made, err := rocketmq.NewPullConsumer(consumer.WithGroupName(s.group()), consumer.WithInstance(s.unique("I")),
		consumer.WithNsResolver(s.resolver()), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must(err)
	must(made.Subscribe(s.topic(), consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}))
	must(made.Start())
	s.open = append(s.open, made.Shutdown)
	got := &inbox{}
	for end := time.Now().Add(bound); len(got.all()) < 50 && time.Now().Before(end); {
		request, err := made.Poll(context.Background(), time.Second)
		if err != nil {
			continue
		}
		got.put(request.GetMsgList()...)
		made.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	equal(names("m", 50), got.bodies(), "messages")
}

func litePullAssign(s *stage) {
	first, err := s.producer().SendSync(context.Background(), s.message("m000"))
	must(err)
	p := s.producer(producer.WithQueueSelector(producer.NewManualQueueSelector()))
	for _, body := range names("m", 20)[1:] {
		message := s.message(body)
		message.Queue = first.MessageQueue
		_, err := p.SendSync(context.Background(), message)
		must(err)
	}
	made, err := rocketmq.NewPullConsumer(consumer.WithGroupName(s.group()), consumer.WithInstance(s.unique("I")),
		consumer.WithNsResolver(s.resolver()))
	must(err)
	must(made.Subscribe(s.topic(), consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}))
	must(made.Start())
	s.open = append(s.open, made.Shutdown)
	result, err := made.PullFrom(context.Background(), first.MessageQueue, 15, 10)
	must(err)
	got := &inbox{}
	got.put(result.GetMessageExts()...)
	equal(names("m", 20)[15:], got.bodies(), "messages from there on")
	equal(int64(20), result.NextBeginOffset, "next offset")
}

// offsetReset: this client has no way to ask for it, but obeys.
func offsetReset(s *stage) {
	p := s.producer()
	for _, body := range names("m", 20) {
		_, err := p.SendSync(context.Background(), s.message(body))
		must(err)
	}
	got := s.collect(s.group(), s.topic(), "*")
	got.wait(20)
	ask(request{Ask: "resetOffsets", Topic: s.topic(), Group: s.group()})
	got.wait(40)
}

// sharing: two members get half of the messages each.
func sharing(s *stage) {
	p := s.producer()
	_, err := p.SendSync(context.Background(), s.message("m000"))
	must(err)
	one, two := s.collect(s.group(), s.topic(), "*"), s.collect(s.group(), s.topic(), "*")
	var lock sync.Mutex
	sent := 1
	await("both members to get messages", func() bool {
		lock.Lock()
		defer lock.Unlock()
		for n := 0; n < 4; n++ {
			_, err := p.SendSync(context.Background(), s.message(fmt.Sprintf("n%03d", sent)))
			must(err)
			sent++
		}
		return len(one.all()) > 3 && len(two.all()) > 3
	})
	distinct := func() int {
		seen := map[string]bool{}
		for _, body := range append(one.bodies(), two.bodies()...) {
			seen[body] = true
		}
		return len(seen)
	}
	await("all messages", func() bool { return distinct() == sent })
}
