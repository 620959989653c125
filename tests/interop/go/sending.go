package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func init() {
	scenarios["sync"] = sync_
	scenarios["async"] = async
	scenarios["oneway"] = oneway
	scenarios["batch"] = batch
	scenarios["selector"] = selector
	scenarios["queue"] = queue
	scenarios["compression"] = compression
	scenarios["properties"] = properties
	scenarios["large"] = large
	scenarios["namespace"] = namespace
	scenarios["aclOff"] = aclOff
	scenarios["rightCredentials"] = rightCredentials
	scenarios["wrongCredentials"] = refused(producer.WithCredentials(wrong))
	scenarios["unknownUser"] = refused(producer.WithCredentials(unknown))
	scenarios["disabledUser"] = refused(producer.WithCredentials(carol))
	scenarios["missingCredentials"] = refused()
}

func sync_(s *stage) {
	p := s.producer()
	ids := map[string]bool{}
	for _, body := range names("m", 50) {
		result, err := p.SendSync(context.Background(), s.message(body))
		must(err)
		equal(primitive.SendOK, result.Status, "status")
		ids[result.MsgID] = true
	}
	equal(50, len(ids), "ids")
	got := s.collect(s.group(), s.topic(), "*")
	for _, message := range got.wait(50) {
		equal(true, ids[message.MsgId], "the consumer sees the producer's ids")
	}
	equal(names("m", 50), got.bodies(), "messages")
}

func async(s *stage) {
	p := s.producer()
	_, err := p.SendSync(context.Background(), s.message("m000"))
	must(err)
	var done sync.WaitGroup
	for _, body := range names("m", 100)[1:] {
		done.Add(1)
		must(p.SendAsync(context.Background(), func(_ context.Context, _ *primitive.SendResult, err error) {
			if err == nil {
				done.Done()
			}
		}, s.message(body)))
	}
	done.Wait()
	got := s.collect(s.group(), s.topic(), "*")
	got.wait(100)
	equal(names("m", 100), got.bodies(), "messages")
}

func oneway(s *stage) {
	p := s.producer()
	_, err := p.SendSync(context.Background(), s.message("m000"))
	must(err)
	for _, body := range names("m", 20)[1:] {
		must(p.SendOneWay(context.Background(), s.message(body)))
	}
	got := s.collect(s.group(), s.topic(), "*")
	got.wait(20)
	equal(names("m", 20), got.bodies(), "messages")
}

func batch(s *stage) {
	p := s.producer()
	var messages []*primitive.Message
	for _, body := range names("m", 30) {
		messages = append(messages, s.message(body).WithTag("tag").WithKeys([]string{"k-" + body}))
	}
	result, err := p.SendSync(context.Background(), messages...)
	must(err)
	equal(primitive.SendOK, result.Status, "status")
	got := s.collect(s.group(), s.topic(), "tag")
	ids := map[string]bool{}
	for _, message := range got.wait(30) {
		ids[message.MsgId] = true
		equal("k-"+string(message.Body), strings.TrimSpace(message.GetKeys()), "keys")
	}
	equal(names("m", 30), got.bodies(), "messages")
	equal(30, len(ids), "each message of a batch keeps its own id")
}

func selector(s *stage) {
	p := s.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	queues := map[string]int{}
	for n := 0; n < 40; n++ {
		key := fmt.Sprintf("key%d", n%3)
		result, err := p.SendSync(context.Background(), s.message(fmt.Sprintf("m%d", n)).WithShardingKey(key))
		must(err)
		if known, seen := queues[key]; seen {
			equal(known, result.MessageQueue.QueueId, "queue of "+key)
		}
		queues[key] = result.MessageQueue.QueueId
	}
	s.collect(s.group(), s.topic(), "*").wait(40)
}

func queue(s *stage) {
	first, err := s.producer().SendSync(context.Background(), s.message("m000"))
	must(err)
	p := s.producer(producer.WithQueueSelector(producer.NewManualQueueSelector()))
	for n, body := range names("m", 10)[1:] {
		message := s.message(body)
		message.Queue = first.MessageQueue
		result, err := p.SendSync(context.Background(), message)
		must(err)
		equal(first.QueueOffset+int64(n)+1, result.QueueOffset, "offsets follow each other")
	}
}

func compression(s *stage) {
	body := strings.Repeat("compress me ", 1000)
	_, err := s.producer().SendSync(context.Background(), s.message(body))
	must(err)
	message := s.collect(s.group(), s.topic(), "*").wait(1)[0]
	equal(body, string(message.Body), "body")
	equal(true, int(message.StoreSize) < len(body), "stored compressed")
}

func properties(s *stage) {
	message := s.message("m").WithKeys([]string{"k1", "k2"})
	message.WithProperty("a", "1")
	message.WithProperty("unicode", "äöü中文😀")
	message.Flag = 42
	_, err := s.producer().SendSync(context.Background(), message)
	must(err)
	got := s.collect(s.group(), s.topic(), "*").wait(1)[0]
	equal("1", got.GetProperty("a"), "property")
	equal("äöü中文😀", got.GetProperty("unicode"), "property")
	equal(int32(42), got.Flag, "flag")
	equal("k1 k2", strings.TrimSpace(got.GetKeys()), "keys")
}

func large(s *stage) {
	body := make([]byte, 4<<20)
	for n := range body {
		body[n] = byte(n * 31)
	}
	p := s.producer(producer.WithCompressMsgBodyOverHowmuch(1<<30), producer.WithSendMsgTimeout(bound))
	_, err := p.SendSync(context.Background(), primitive.NewMessage(s.topic(), body))
	must(err)
	equal(body, s.collect(s.group(), s.topic(), "*").wait(1)[0].Body, "body")
}

func namespace(s *stage) {
	_, err := s.producer(producer.WithNamespace("NS")).SendSync(context.Background(), s.message("m000"))
	must(err)
	s.collect(s.group(), "NS%"+s.topic(), "*").wait(1)
}

// The users are those of the program that starts this one.
var (
	alice   = primitive.Credentials{AccessKey: "alice", SecretKey: "alice-secret-1"}
	wrong   = primitive.Credentials{AccessKey: "alice", SecretKey: "wrong-secret-1"}
	unknown = primitive.Credentials{AccessKey: "mallory", SecretKey: "alice-secret-1"}
	carol   = primitive.Credentials{AccessKey: "carol", SecretKey: "carol-secret-1"}
)

// rightCredentials: messages get in and out.
func rightCredentials(s *stage) {
	p := s.producer(producer.WithCredentials(alice))
	for _, body := range names("m", 10) {
		_, err := p.SendSync(context.Background(), s.message(body))
		must(err)
	}
	got := s.collect(s.group(), s.topic(), "*", consumer.WithCredentials(alice))
	got.wait(10)
	equal(names("m", 10), got.bodies(), "messages")
}

// refused: nothing gets in.
func refused(options ...producer.Option) scenario {
	return func(s *stage) {
		_, err := s.producer(options...).SendSync(context.Background(), s.message("forged"))
		equal(true, err != nil, "refusal")
	}
}

// aclOff: a client that signs its requests is as welcome as any where nobody checks signatures.
func aclOff(s *stage) {
	credentials := primitive.Credentials{AccessKey: "someAccessKey", SecretKey: "someSecretKey"}
	p := s.producer(producer.WithCredentials(credentials))
	for _, body := range names("m", 10) {
		_, err := p.SendSync(context.Background(), s.message(body))
		must(err)
	}
	got := s.collect(s.group(), s.topic(), "*")
	got.wait(10)
	equal(names("m", 10), got.bodies(), "messages")
}
