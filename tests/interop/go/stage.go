package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const bound = 180 * time.Second

var answers = bufio.NewReader(os.Stdin)
var asking sync.Mutex

// stage is what a scenario needs: names of its own, clients that are closed with it, and bounded waiting.
type stage struct {
	namesrv, name string
	counter       int
	open          []func() error
}

func newStage(namesrv, scenario string) *stage {
	return &stage{namesrv: namesrv, name: fmt.Sprintf("%s_go_%x", scenario, time.Now().UnixNano())}
}

func (s *stage) close() {
	for n := len(s.open) - 1; n >= 0; n-- {
		_ = s.open[n]()
	}
}

func (s *stage) topic() string { return "T_" + s.name }
func (s *stage) group() string { return "G_" + s.name }

func (s *stage) unique(prefix string) string {
	s.counter++
	return fmt.Sprintf("%s_%s_%d", prefix, s.name, s.counter)
}

func (s *stage) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{s.namesrv})
}

func (s *stage) producer(options ...producer.Option) rocketmq.Producer {
	options = append([]producer.Option{
		producer.WithGroupName(s.unique("P")), producer.WithInstanceName(s.unique("I")),
		producer.WithNsResolver(s.resolver()), producer.WithRetry(2), producer.WithSendMsgTimeout(10 * time.Second),
	}, options...)
	made, err := rocketmq.NewProducer(options...)
	must(err)
	must(made.Start())
	s.open = append(s.open, made.Shutdown)
	return made
}

func (s *stage) message(body string) *primitive.Message {
	return primitive.NewMessage(s.topic(), []byte(body))
}

type listener func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// consume starts a push consumer that begins at the oldest message.
func (s *stage) consume(group, topic string, selector consumer.MessageSelector, f listener, options ...consumer.Option) {
	options = append([]consumer.Option{
		consumer.WithGroupName(group), consumer.WithInstance(s.unique("I")), consumer.WithNsResolver(s.resolver()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, options...)
	made, err := rocketmq.NewPushConsumer(options...)
	must(err)
	must(made.Subscribe(topic, selector, f))
	must(made.Start())
	s.open = append(s.open, made.Shutdown)
}

// inbox keeps what a consumer got.
type inbox struct {
	lock     sync.Mutex
	messages []*primitive.MessageExt
}

func (i *inbox) put(messages ...*primitive.MessageExt) {
	i.lock.Lock()
	defer i.lock.Unlock()
	i.messages = append(i.messages, messages...)
}

func (i *inbox) all() []*primitive.MessageExt {
	i.lock.Lock()
	defer i.lock.Unlock()
	return append([]*primitive.MessageExt(nil), i.messages...)
}

func (i *inbox) bodies() []string {
	var bodies []string
	for _, message := range i.all() {
		bodies = append(bodies, string(message.Body))
	}
	sort.Strings(bodies)
	return bodies
}

func (i *inbox) wait(count int) []*primitive.MessageExt {
	await(fmt.Sprintf("%d messages", count), func() bool { return len(i.all()) >= count })
	return i.all()
}

func (s *stage) collect(group, topic, tags string, options ...consumer.Option) *inbox {
	got := &inbox{}
	s.consume(group, topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			got.put(messages...)
			return consumer.ConsumeSuccess, nil
		}, options...)
	return got
}

// request is what the program that started this one is asked to do.
type request struct {
	Ask   string `json:"ask"`
	Topic string `json:"topic,omitempty"`
	Group string `json:"group,omitempty"`
}

// ask has something done to the servers.
func ask(what request) {
	asking.Lock()
	defer asking.Unlock()
	line, err := json.Marshal(what)
	must(err)
	os.Stdout.Write(append(line, '\n'))
	answer, err := answers.ReadString('\n')
	must(err)
	equal("done\n", answer, what.Ask)
}

func await(what string, condition func() bool) {
	for end := time.Now().Add(bound); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			panic("waited in vain for " + what)
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(expected, actual interface{}, what string) {
	if !reflect.DeepEqual(expected, actual) {
		panic(fmt.Sprintf("%s: expected %v but got %v", what, expected, actual))
	}
}

func names(prefix string, count int) []string {
	var all []string
	for n := 0; n < count; n++ {
		all = append(all, fmt.Sprintf("%s%03d", prefix, n))
	}
	return all
}
