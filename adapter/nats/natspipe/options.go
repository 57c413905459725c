package natspipe

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tenetdev/tenet/internal/address"
)

// Defaults of [Options].
const (
	DefaultConsumer = "tenet"
	DefaultAckWait  = 30 * time.Second
	DefaultTimeout  = 5 * time.Second
)

const notInNames = " .*>/\\\t\r\n"

const leastAckWait = 100 * time.Millisecond

// Options name a stream and say how to use it. Stream is required.
type Options struct {
	// Stream is the name of an existing stream.
	Stream string
	// Consumer is the name of the durable pull consumer through which a source reads. Default [DefaultConsumer]. An
	// existing consumer is used unchanged, and its ack_policy must be explicit. A missing one is created: from the stream's
	// first message, with at most 65,536 unacknowledged messages, and without a limit of deliveries.
	Consumer string
	// Subject is, for a source, the filter of a consumer that it creates (default: the whole stream), and for a sink the
	// subject of its messages (default: the stream's only subject, if that has no wildcard).
	Subject string
	// AckWait is the ack_wait of a consumer that is created: the time after which the server redelivers a message that is
	// neither acknowledged nor extended. Default [DefaultAckWait], at least 100 ms. An existing consumer keeps its own.
	AckWait time.Duration
	// DoubleAck makes a source wait for the server's confirmation of each acknowledgement. Without it, a lost acknowledgement
	// means another delivery.
	DoubleAck bool
	// Timeout bounds each request to the server, and the wait for a lost connection. Default
	// [DefaultTimeout].
	Timeout time.Duration
	// Connect are further options of the connection: credentials, TLS, handlers.
	Connect []nats.Option
}

// ParseURL reads Options from a URL such as nats://host:4222/STREAM?consumer=NAME. server is the rest of the URL, for the
// Open functions; it may be a comma-separated list of one cluster's hosts. The parameters are the names of the fields:
// consumer, subject, ack_wait, double_ack, timeout.
func ParseURL(text string) (server string, o Options, err error) {
	if err := address.Check(text); err != nil {
		return "", o, fmt.Errorf("nats: %w", err)
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return "", o, errors.New("nats: the URL has no scheme; write nats://host/STREAM")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, stream, _ := strings.Cut(rest, "/")
	if strings.HasPrefix(stream, "/") { // of a second scheme; what follows may hold a password
		return "", o, errors.New("nats: the servers cannot be read; write nats://a:4222,b:4222/STREAM, with one scheme")
	}
	if o.Stream, err = url.PathUnescape(stream); err != nil {
		return "", o, kind.Wrap("the stream's name", err)
	}
	server = scheme + "://" + hosts
	if err := kind.Readable(server); err != nil {
		return "", o, err
	}
	p, err := address.ReadParameters(query)
	if err != nil {
		return "", o, fmt.Errorf("nats: %w", err)
	}
	o.Consumer, o.Subject = p.Text("consumer"), p.Text("subject")
	p.Duration("ack_wait", &o.AckWait)
	p.Switch("double_ack", &o.DoubleAck)
	p.Duration("timeout", &o.Timeout)
	if _, err := p.Only(); err != nil {
		return "", o, fmt.Errorf("nats: %w", err)
	}
	_, err = o.withDefaults()
	return server, o, err
}

func (o Options) withDefaults() (Options, error) {
	o.Consumer = cmp.Or(o.Consumer, DefaultConsumer)
	o.AckWait = cmp.Or(o.AckWait, DefaultAckWait)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	switch err := address.CheckNames("stream", o.Stream, "consumer", o.Consumer, "subject", o.Subject); {
	case err != nil:
		return o, fmt.Errorf("nats: %w", err)
	case o.Stream == "":
		return o, errors.New("nats: the stream's name is missing; write nats://host/STREAM, or set Options.Stream")
	case strings.ContainsAny(o.Stream, notInNames):
		return o, fmt.Errorf("nats: stream %q: names have no spaces, dots, wildcards or slashes", o.Stream)
	case strings.ContainsAny(o.Consumer, notInNames):
		return o, fmt.Errorf("nats: consumer %q: names have no spaces, dots, wildcards or slashes", o.Consumer)
	case o.AckWait < leastAckWait:
		return o, fmt.Errorf("nats: ack_wait: %v is too short; use %v or more", o.AckWait, leastAckWait)
	case o.Timeout < 0:
		return o, fmt.Errorf("nats: timeout: %v is negative; use a duration above 0", o.Timeout)
	}
	return o, nil
}
