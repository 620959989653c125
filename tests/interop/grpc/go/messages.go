package main

import (
	"encoding/json"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

// message is one as lines of JSON have it; its body is base64 there.
type message struct {
	ID         string            `json:"id"`
	Topic      string            `json:"topic"`
	Body       []byte            `json:"body"`
	Tag        *string           `json:"tag"`
	Keys       []string          `json:"keys"`
	Properties map[string]string `json:"properties"`
	Group      *string           `json:"group"`
	DeliverAt  *int64            `json:"deliverAt"`
	Attempt    int32             `json:"attempt"`
}

// messageOrID is a whole message where one is sent, and the id of one that was received elsewhere.
type messageOrID struct{ message }

func (m *messageOrID) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &m.ID)
	}
	return json.Unmarshal(data, &m.message)
}

func (m *message) made() *rmq.Message {
	made := &rmq.Message{Topic: m.Topic, Body: m.Body, Tag: m.Tag}
	made.SetKeys(m.Keys...)
	for name, text := range m.Properties {
		made.AddProperty(name, text)
	}
	if m.Group != nil {
		made.SetMessageGroup(*m.Group)
	}
	if m.DeliverAt != nil {
		made.SetDelayTimestamp(time.UnixMilli(*m.DeliverAt))
	}
	return made
}

func told(view *rmq.MessageView) message {
	said := message{
		ID: view.GetMessageId(), Topic: view.GetTopic(), Body: view.GetBody(), Tag: view.GetTag(),
		Keys: view.GetKeys(), Properties: view.GetProperties(), Group: view.GetMessageGroup(),
		Attempt: view.GetDeliveryAttempt(),
	}
	if at := view.GetDeliveryTimestamp(); at != nil {
		ms := at.UnixMilli()
		said.DeliverAt = &ms
	}
	return said
}
