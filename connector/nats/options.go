package nats

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// DefaultAckWait is how long a delivery may take without a sign of life.
const DefaultAckWait = 30 * time.Second

const (
	minAckWait    = 100 * time.Millisecond
	maxAckPending = 10_000
	requestTime   = 5 * time.Second
)

// Options say which stream is meant, and how. Stream is required.
type Options struct {
	// Stream is its name.
	Stream string
	// Consumer is the durable consumer of a source, default "tenet".
	Consumer string
	// Subject is what a source takes only messages of, default all; and where a sink publishes, default the stream's only
	// subject.
	Subject string
	// AckWait is after which time an unacknowledged delivery is made again, when the consumer is made. Default 30 s, at
	// least 100 ms.
	AckWait time.Duration
	// DoubleAck waits until the server has taken each acknowledgement.
	DoubleAck bool
	// Connect is added to what connections are made with: credentials, TLS, handlers.
	Connect []nats.Option
}

// ParseURL takes Options out of a URL such as nats://host:4222/STREAM?consumer=mail&ack_wait=1m. What it returns as server
// is the rest, for Open functions. Parameters: consumer, subject, ack_wait, double_ack.
func ParseURL(text string) (server string, o Options, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", o, fmt.Errorf("nats: the URL cannot be read: %w", errors.Unwrap(err)) // without the URL, which may hold a password
	}
	o.Stream = strings.Trim(u.Path, "/")
	if o.Stream == "" || strings.Contains(o.Stream, "/") {
		return "", o, errors.New("nats: the stream is missing; write nats://host/STREAM")
	}
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "consumer":
			o.Consumer = value
		case "subject":
			o.Subject = value
		case "ack_wait":
			if o.AckWait, err = time.ParseDuration(value); err != nil {
				return "", o, fmt.Errorf("nats: ack_wait=%s: write a duration such as 30s", value)
			}
		case "double_ack":
			if o.DoubleAck, err = strconv.ParseBool(value); err != nil {
				return "", o, fmt.Errorf("nats: double_ack=%s: write true or false", value)
			}
		default:
			return "", o, fmt.Errorf("nats: unknown parameter %s; there are consumer, subject, ack_wait and double_ack", name)
		}
	}
	u.Path, u.RawQuery = "", ""
	_, err = o.withDefaults()
	return u.String(), o, err
}

func (o Options) withDefaults() (Options, error) {
	if o.Consumer == "" {
		o.Consumer = "tenet"
	}
	if o.AckWait == 0 {
		o.AckWait = DefaultAckWait
	}
	switch {
	case o.Stream == "":
		return o, errors.New("nats: the stream is missing; set Options.Stream")
	case o.AckWait < minAckWait:
		return o, fmt.Errorf("nats: ack_wait: %v is too short; use %v or more", o.AckWait, minAckWait)
	case strings.ContainsAny(o.Consumer, " .*>/\\\t\r\n"):
		return o, fmt.Errorf("nats: consumer %q: names have no spaces, dots, wildcards or slashes", o.Consumer)
	}
	return o, nil
}

// connect makes a connection that is kept up for as long as it takes.
func connect(server string, o Options) (*nats.Conn, error) {
	conn, err := nats.Connect(server, append([]nats.Option{nats.Name("tenet"), nats.MaxReconnects(-1)}, o.Connect...)...)
	if err != nil {
		return nil, fmt.Errorf("nats: connect: %w", err)
	}
	return conn, nil
}
