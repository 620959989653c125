package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func init() {
	scenarios["delayLevel"] = delayLevel
	scenarios["timed"] = timed
	scenarios["transaction"] = transaction
	scenarios["retry"] = retry
	scenarios["deadLetter"] = deadLetter
	scenarios["requestReply"] = requestReply
	scenarios["trace"] = trace
	scenarios["restartBroker"] = func(s *stage) { restart(s, "restartBroker") }
	scenarios["killBroker"] = func(s *stage) { restart(s, "killBroker") }
	scenarios["restartNamesrv"] = func(s *stage) { restart(s, "restartNamesrv") }
}

func delayLevel(s *stage) {
	p := s.producer()
	_, err := p.SendSync(context.Background(), s.message("warm"))
	must(err)
	got := s.collect(s.group(), s.topic(), "*")
	got.wait(1)
	sent := time.Now().UnixMilli()
	for level := 1; level <= 2; level++ {
		_, err := p.SendSync(context.Background(), s.message(fmt.Sprintf("level%d", level)).WithDelayTimeLevel(level))
		must(err)
	}
	messages := got.wait(3)
	equal("level1", string(messages[1].Body), "first")
	equal(true, messages[1].StoreTimestamp-sent >= 1000, "level 1 is not early")
	equal(true, messages[2].StoreTimestamp-sent >= 5000, "level 2 is not early")
}

func timed(s *stage) {
	p := s.producer()
	_, err := p.SendSync(context.Background(), s.message("warm"))
	must(err)
	got := s.collect(s.group(), s.topic(), "*")
	got.wait(1)
	due := time.Now().UnixMilli() + 4000
	message := s.message("timed")
	message.WithProperty("TIMER_DELIVER_MS", fmt.Sprint(due))
	_, err = p.SendSync(context.Background(), message)
	must(err)
	// Apache rounds the time down to its precision of one second.
	equal(true, got.wait(2)[1].StoreTimestamp >= due-1000, "not early by more than the precision")
}

// ledger has local transactions that end as the bodies say, whenever they are asked about.
type ledger struct{ checks sync.Map }

func outcomeOf(body string) primitive.LocalTransactionState {
	if strings.HasPrefix(body, "commit") || strings.HasSuffix(body, "yes") {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func (l *ledger) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	if strings.HasPrefix(string(message.Body), "unknown") {
		return primitive.UnknowState
	}
	return outcomeOf(string(message.Body))
}

func (l *ledger) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	l.checks.Store(string(message.Body), true)
	return outcomeOf(string(message.Body))
}

func transaction(s *stage) {
	book := &ledger{}
	p, err := rocketmq.NewTransactionProducer(book, producer.WithGroupName(s.unique("P")),
		producer.WithInstanceName(s.unique("I")), producer.WithNsResolver(s.resolver()))
	must(err)
	must(p.Start())
	s.open = append(s.open, p.Shutdown)
	for _, body := range []string{"commit1", "rollback1", "commit2", "unknown-yes", "unknown-no"} {
		message := s.message(body).WithTag("tag")
		message.WithProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "1")
		_, err := p.SendMessageInTransaction(context.Background(), message)
		must(err)
	}
	got := s.collect(s.group(), s.topic(), "tag")
	await("both check-backs", func() bool {
		_, yes := book.checks.Load("unknown-yes")
		_, no := book.checks.Load("unknown-no")
		return yes && no
	})
	await("the committed messages", func() bool {
		seen := map[string]bool{}
		for _, body := range got.bodies() {
			seen[body] = true
		}
		return len(seen) == 3 && seen["commit1"] && seen["commit2"] && seen["unknown-yes"]
	})
}

func later(ctx context.Context) (consumer.ConsumeResult, error) {
	if c, ok := primitive.GetConcurrentlyCtx(ctx); ok {
		c.DelayLevelWhenNextConsume = 1
	}
	return consumer.ConsumeRetryLater, nil
}

func retry(s *stage) {
	_, err := s.producer().SendSync(context.Background(), s.message("fails twice"))
	must(err)
	got := &inbox{}
	s.consume(s.group(), s.topic(), consumer.MessageSelector{}, func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		got.put(messages...)
		if messages[0].ReconsumeTimes < 2 {
			return later(ctx)
		}
		return consumer.ConsumeSuccess, nil
	})
	for attempt, message := range got.wait(3) {
		equal(int32(attempt), message.ReconsumeTimes, "attempt")
		equal(s.topic(), message.Topic, "topic of a retry")
	}
}

func deadLetter(s *stage) {
	_, err := s.producer().SendSync(context.Background(), s.message("poison"))
	must(err)
	got := &inbox{}
	s.consume(s.group(), s.topic(), consumer.MessageSelector{}, func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		got.put(messages...)
		return later(ctx)
	}, consumer.WithMaxReconsumeTimes(1))
	got.wait(2)
	dead := "%DLQ%" + s.group()
	routes, err := admin.NewAdmin(admin.WithResolver(s.resolver()))
	must(err)
	s.open = append(s.open, routes.Close)
	await("the dead-letter topic", func() bool { // a consumer does not start without a route
		queues, err := routes.FetchPublishMessageQueues(context.Background(), dead)
		return err == nil && len(queues) > 0
	})
	letters := s.collect(s.unique("G"), dead, "*")
	equal("poison", string(letters.wait(1)[0].Body), "body")
	equal(2, len(got.all()), "attempts")
}

func requestReply(s *stage) {
	requester, replier := s.producer(), s.producer()
	_, err := requester.SendSync(context.Background(), s.message("ignored").WithTag("warm"))
	must(err)
	s.consume(s.group(), s.topic(), consumer.MessageSelector{Type: consumer.TAG, Expression: "ask"},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			// The client registers its producers with the broker a second after it started.
			time.Sleep(time.Second)
			for _, message := range messages {
				reply, err := consumer.CreateReplyMessage(message, nil)
				if err != nil {
					return consumer.ConsumeRetryLater, err
				}
				reply.Body = append([]byte("re: "), message.Body...) // 2.1.2 forgets the body it is given
				if _, err := replier.SendSync(context.Background(), reply); err != nil {
					return consumer.ConsumeRetryLater, err
				}
			}
			return consumer.ConsumeSuccess, nil
		})
	answer, err := requester.Request(context.Background(), bound, s.message("how are you?").WithTag("ask"))
	must(err)
	equal("re: how are you?", string(answer.Body), "reply")
}

func trace(s *stage) {
	traceTopic := "Trace_" + s.name
	_, err := s.producer().SendSync(context.Background(), primitive.NewMessage(traceTopic, []byte("warm")))
	must(err)
	config := &primitive.TraceConfig{Access: primitive.Local, Resolver: s.resolver(), TraceTopic: traceTopic}
	result, err := s.producer(producer.WithTrace(config)).SendSync(context.Background(), s.message("traced"))
	must(err)
	got := s.collect(s.group(), traceTopic, "*")
	await("the trace record", func() bool {
		for _, body := range got.bodies() {
			if strings.HasPrefix(body, "Pub\x01") && strings.Contains(body, result.MsgID) {
				return true
			}
		}
		return false
	})
}

// restart: messages flow before, during and after; what was acknowledged arrives.
func restart(s *stage, what string) {
	ask(request{Ask: "settle"})
	p := s.producer()
	acknowledged := map[string]bool{}
	send := func(prefix string) {
		for _, body := range names(prefix, 20) {
			_, err := p.SendSync(context.Background(), s.message(body))
			must(err)
			acknowledged[body] = true
		}
	}
	send("before")
	got := s.collect(s.group(), s.topic(), "*")
	got.wait(20)
	enough := make(chan struct{})
	during := make(chan []string)
	go func() {
		var sent []string
		for n := 0; ; n++ {
			select {
			case <-enough:
				during <- sent
				return
			case <-time.After(20 * time.Millisecond):
			}
			body := fmt.Sprintf("during%d", n)
			if result, err := p.SendSync(context.Background(), s.message(body)); err == nil && result.Status == primitive.SendOK {
				sent = append(sent, body)
			}
		}
	}()
	ask(request{Ask: what})
	await("sends to succeed again", func() bool {
		_, err := p.SendSync(context.Background(), s.message("probe"))
		return err == nil
	})
	close(enough)
	for _, body := range <-during {
		acknowledged[body] = true
	}
	send("after")
	await("everything that was acknowledged", func() bool {
		seen := map[string]bool{}
		for _, body := range got.bodies() {
			seen[body] = true
		}
		for body := range acknowledged {
			if !seen[body] {
				return false
			}
		}
		return true
	})
}
