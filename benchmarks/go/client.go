package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	requestTimeout = 3 * time.Second // as all SDKs have it
	pollingTime    = 20 * time.Second
	batchSize      = 32
	invisible      = 60 * time.Second
)

var serial atomic.Uint64

// Client is one connection with the metadata that SDKs send.
type Client struct {
	v2.MessagingServiceClient
	connection *grpc.ClientConn
	id         string
	telemetry  v2.MessagingService_TelemetryClient
}

func connect(address string) (*Client, error) {
	// A server that is about to start is asked again at once.
	params := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
		MinConnectTimeout: time.Second,
	}
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(params),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<27)))
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	id := fmt.Sprintf("%s@%d@%d@bench", host, os.Getpid(), serial.Add(1))
	return &Client{v2.NewMessagingServiceClient(connection), connection, id, nil}, nil
}

func (client *Client) close() {
	_ = client.connection.Close()
}

// context has the metadata of a call.
func (client *Client) context(parent context.Context) context.Context {
	return metadata.AppendToOutgoingContext(parent,
		"x-mq-client-id", client.id,
		"x-mq-language", "GO",
		"x-mq-protocol", "v2",
		"x-mq-client-version", "5.1.4",
		"x-mq-namespace", "",
		"x-mq-request-id", requestId(),
		"x-mq-date-time", time.Now().Format("20060102T150405Z"))
}

// requestId has the form of a UUID and costs less.
func requestId() string {
	number := strconv.FormatUint(serial.Add(1)+1<<44, 16)
	return "3f2504e0-4f89-41d3-9a0c-" + number
}

// introduce opens the telemetry stream as a consumer, and waits for the settings.
func (client *Client) introduce(ctx context.Context, options Options) error {
	stream, err := client.Telemetry(client.context(ctx))
	if err != nil {
		return err
	}
	kind := v2.ClientType_SIMPLE_CONSUMER
	entry := &v2.SubscriptionEntry{Topic: resource(options.topic), Expression: everything()}
	subscription := &v2.Subscription{
		Group:              resource(options.group),
		Subscriptions:      []*v2.SubscriptionEntry{entry},
		LongPollingTimeout: durationpb.New(pollingTime),
	}
	settings := &v2.Settings{
		ClientType:     &kind,
		RequestTimeout: durationpb.New(requestTimeout),
		PubSub:         &v2.Settings_Subscription{Subscription: subscription},
		UserAgent:      &v2.UA{Language: v2.Language_GOLANG, Version: "5.1.4"},
	}
	command := &v2.TelemetryCommand{Command: &v2.TelemetryCommand_Settings{Settings: settings}}
	if err := stream.Send(command); err != nil {
		return err
	}
	client.telemetry = stream
	_, err = stream.Recv()
	return err
}

// queue is where to receive from: the first that can be read.
func (client *Client) queue(ctx context.Context, options Options) (*v2.MessageQueue, error) {
	answer, err := client.QueryRoute(client.context(ctx), &v2.QueryRouteRequest{
		Topic:     resource(options.topic),
		Endpoints: endpoints(options.address),
	})
	if err != nil {
		return nil, err
	}
	if answer.Status.Code != v2.Code_OK {
		return nil, fmt.Errorf("no route of %s: %v", options.topic, answer.Status)
	}
	for _, queue := range answer.MessageQueues {
		if queue.Permission == v2.Permission_READ_WRITE {
			return queue, nil
		}
	}
	return nil, fmt.Errorf("no queue of %s can be read", options.topic)
}

// sendOne tells whether the message was accepted.
func (client *Client) sendOne(ctx context.Context, topic string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := client.SendMessage(client.context(ctx), request(topic, body))
	if err == nil && answer.Status.Code != v2.Code_OK {
		err = fmt.Errorf("refused: %v", answer.Status)
	}
	return err
}

func request(topic string, body []byte) *v2.SendMessageRequest {
	properties := &v2.SystemProperties{
		MessageId:     fmt.Sprintf("0156F7E71C361B21BC%016X", serial.Add(1)),
		BodyEncoding:  v2.Encoding_IDENTITY,
		MessageType:   v2.MessageType_NORMAL,
		BornTimestamp: timestamppb.Now(),
		BornHost:      "127.0.0.1",
	}
	message := &v2.Message{Topic: resource(topic), SystemProperties: properties, Body: body}
	return &v2.SendMessageRequest{Messages: []*v2.Message{message}}
}

func resource(name string) *v2.Resource {
	return &v2.Resource{Name: name}
}

func everything() *v2.FilterExpression {
	return &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"}
}

func endpoints(address string) *v2.Endpoints {
	host, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	return &v2.Endpoints{
		Scheme:    v2.AddressScheme_IPv4,
		Addresses: []*v2.Address{{Host: host, Port: int32(port)}},
	}
}
