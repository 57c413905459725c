package rabbitmq

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
)

// MetaRoutingKey is the metadata in which a transaction carries the routing key that its message was published with, unless
// that is the queue's name.
const MetaRoutingKey = "amqp_routing_key"

// Headers of messages besides the metadata.
const (
	headerParent     = "tenet_parent"
	headerAttempts   = "tenet_attempts"
	headerMetadata   = "tenet_metadata" // a table of metadata whose names are reserved
	headerID         = "tenet_id"       // an ID that does not fit into the property
	headerCorrelated = "tenet_correlation"
)

const mostName = 255 // bytes of an AMQP short string

// reserved reports whether a header of this name has a meaning to the broker or to this package.
func reserved(name string) bool {
	return name == "CC" || name == "BCC" || name == "" || strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "tenet_") &&
		name != pipeline.MetaError && name != pipeline.MetaCategory && name != pipeline.MetaStep && name != pipeline.MetaConsumer
}

// publishing makes the message of a transaction.
func publishing(t *pipeline.Transaction) (amqp.Publishing, error) {
	m := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: t.ID(), CorrelationId: t.Correlation(), Body: t.Payload()}
	h := amqp.Table{}
	if len(m.MessageId) > mostName {
		h[headerID], m.MessageId = m.MessageId, ""
	}
	if len(m.CorrelationId) > mostName {
		h[headerCorrelated], m.CorrelationId = m.CorrelationId, ""
	}
	if t.Parent() != "" {
		h[headerParent] = t.Parent()
	}
	if t.Attempts() > 0 {
		h[headerAttempts] = int64(t.Attempts())
	}
	special := amqp.Table{}
	for name, value := range t.AllMetadata() {
		switch {
		case len(name) > mostName:
			return m, classify.Permanent(fmt.Errorf("rabbitmq: transaction %s: metadata: a name of %d bytes is longer than %d", t.ID(), len(name), mostName))
		case reserved(name):
			special[name] = value
		default:
			h[name] = value
		}
	}
	if len(special) > 0 {
		h[headerMetadata] = special
	}
	if len(h) > 0 {
		m.Headers = h
	}
	return m, nil
}

const frameOverhead = 8 // bytes of a frame besides its content

// sizeOf returns the bytes of a message without its body. They are sent in one frame; the broker ends the connection if that is
// larger than its frame_max.
func sizeOf(m *amqp.Publishing) int {
	n := 15 + 1 + len(m.MessageId) // 15 for the class, the body's size, the flags and the delivery mode
	if m.CorrelationId != "" {
		n += 1 + len(m.CorrelationId)
	}
	return n + sizeOfTable(m.Headers)
}

func sizeOfTable(h amqp.Table) int {
	n := 4
	for name, value := range h {
		n += 2 + len(name)
		switch v := value.(type) {
		case string:
			n += 4 + len(v)
		case amqp.Table:
			n += sizeOfTable(v)
		default: // a number
			n += 8
		}
	}
	return n
}

// transaction reads a message. A message without an ID gets a new one at each delivery.
func transaction(d *amqp.Delivery, queue string) *pipeline.Transaction {
	id := idOf(d.MessageId, d.Headers)
	if len(d.Headers) == 0 && d.CorrelationId == "" && d.RoutingKey == queue {
		return pipeline.NewTransaction(id, d.Body)
	}
	metadata := make(map[string]string, len(d.Headers))
	for name, value := range d.Headers {
		if text, ok := textOf(value); ok && !reserved(name) {
			metadata[name] = text
		}
	}
	if special, ok := d.Headers[headerMetadata].(amqp.Table); ok {
		for name, value := range special {
			if text, ok := value.(string); ok {
				metadata[name] = text
			}
		}
	}
	if d.RoutingKey != queue {
		metadata[MetaRoutingKey] = d.RoutingKey
	}
	correlation := d.CorrelationId
	if long, ok := d.Headers[headerCorrelated].(string); ok {
		correlation = long
	}
	parent, _ := d.Headers[headerParent].(string)
	return pipeline.NewTransaction(id, d.Body, pipeline.WithMetadata(metadata), pipeline.WithCorrelation(correlation),
		pipeline.WithParent(parent), pipeline.WithAttempts(int(number(d.Headers[headerAttempts]))))
}

func idOf(property string, h amqp.Table) string {
	if long, ok := h[headerID].(string); ok && property == "" {
		return long
	}
	return property
}

// deliveries returns how often a message has been delivered, including this time. Classic queues only know whether it was
// delivered before.
func deliveries(d *amqp.Delivery) int {
	if counted, ok := d.Headers["x-delivery-count"]; ok {
		return 1 + int(number(counted))
	}
	if d.Redelivered {
		return 2
	}
	return 1
}

// textOf returns the text of a header's value, if its type has one.
func textOf(v any) (string, bool) {
	switch x := v.(type) {
	case string:
		return x, true
	case []byte:
		return string(x), true
	case bool, int8, byte, int16, uint16, int32, uint32, int64, float32, float64:
		return fmt.Sprint(x), true
	case time.Time:
		return x.UTC().Format(time.RFC3339), true
	}
	return "", false
}

func number(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	case int16:
		return int64(n)
	case byte:
		return int64(n)
	}
	return 0
}
