package rabbitmq

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/address"
)

// DefaultTimeout is the default of [Options].Timeout.
const DefaultTimeout = 10 * time.Second

// Kinds of queues, for [Options].Declare.
const (
	Quorum  = "quorum"
	Classic = "classic"
)

// Options name a queue and say how to use it.
type Options struct {
	// Queue is the name of the queue that a source consumes, or a sink's routing key. Sources require it.
	Queue string
	// Exchange is where a sink publishes. Default: the default exchange, which routes to the queue that the key names.
	Exchange string
	// Key is a sink's routing key. Default Queue.
	Key string
	// Declare makes a durable queue if it is missing: [Quorum] or [Classic]. An existing queue must be of that kind and must not have
	// further arguments, such as a delivery-limit; policies of the broker do not count. Default: the queue must exist.
	Declare string
	// Prefetch is how many unsettled deliveries the broker sends to a source, up to 65,535. Default: twice what the first fetch
	// asks for. It grows when the engine holds all of them and asks for more. With concurrency.value + 2 × batch.size of the
	// policy the engine never waits for it.
	Prefetch int
	// Timeout bounds each request to the broker, the wait for a confirm, and the wait for a lost connection. Default [DefaultTimeout].
	Timeout time.Duration
	// TLS configures amqps connections; with it the URL's parameters about certificates are ignored.
	TLS *tls.Config
}

// forClient are the parameters of URLs that the AMQP client reads.
var forClient = []string{
	"certfile", "keyfile", "cacertfile", "server_name_indication", "auth_mechanism", "heartbeat", "connection_timeout", "channel_max",
}

// ParseURL reads Options from a URL such as amqp://user:password@host/QUEUE?declare=quorum, or amqp://…/VHOST/QUEUE for
// another virtual host than the default one. Slashes in names are written as %2F. server is the rest of the URL, for the Open
// functions. The parameters are the names of the fields in lower case: exchange, key, declare, prefetch, timeout.
func ParseURL(text string) (server string, o Options, err error) {
	if err := address.Check(text); err != nil {
		return "", o, fmt.Errorf("rabbitmq: %w", err)
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", o, errors.New("rabbitmq: the URL cannot be read; write amqp://host/QUEUE, with %2F and the like in names and passwords")
	}
	if u.Scheme != "amqp" && u.Scheme != "amqps" {
		return "", o, fmt.Errorf("rabbitmq: the scheme %q is not amqp or amqps", u.Scheme)
	}
	names := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if len(names) > 2 {
		return "", o, fmt.Errorf("rabbitmq: %s: write /QUEUE or /VHOST/QUEUE, and %%2F for a slash in a name", u.EscapedPath())
	}
	if o.Queue, err = url.PathUnescape(names[len(names)-1]); err != nil {
		return "", o, fmt.Errorf("rabbitmq: the queue's name: %w", err)
	}
	host := ""
	if len(names) == 2 {
		host = "/" + names[0]
	}
	p, err := address.ReadParameters(u.RawQuery)
	if err != nil {
		return "", o, fmt.Errorf("rabbitmq: %w", err)
	}
	o.Exchange, o.Key, o.Declare = p.Text("exchange"), p.Text("key"), p.Text("declare")
	p.Number("prefetch", &o.Prefetch)
	p.Duration("timeout", &o.Timeout)
	q, err := p.Only(forClient...)
	if err != nil {
		return "", o, fmt.Errorf("rabbitmq: %w", err)
	}
	rest := url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, RawQuery: q.Encode()}
	if rest.Path, err = url.PathUnescape(host); err != nil {
		return "", o, fmt.Errorf("rabbitmq: the virtual host's name: %w", err)
	}
	rest.RawPath = host
	_, err = o.withDefaults()
	return rest.String(), o, err
}

const mostPrefetch = 1<<16 - 1

func (o Options) withDefaults() (Options, error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Key = cmp.Or(o.Key, o.Queue)
	switch err := address.CheckNames("queue", o.Queue, "exchange", o.Exchange, "key", o.Key); {
	case err != nil:
		return o, fmt.Errorf("rabbitmq: %w", err)
	case o.Timeout < 0:
		return o, fmt.Errorf("rabbitmq: timeout: %v is negative; use a duration above 0", o.Timeout)
	case o.Prefetch < 0 || o.Prefetch > mostPrefetch:
		return o, fmt.Errorf("rabbitmq: prefetch: %d is not within 0 to %d", o.Prefetch, mostPrefetch)
	case o.Declare != "" && o.Declare != Quorum && o.Declare != Classic:
		return o, fmt.Errorf("rabbitmq: declare: %q is neither %s nor %s", o.Declare, Quorum, Classic)
	case o.Declare != "" && o.Queue == "":
		return o, errors.New("rabbitmq: declare: the queue's name is missing; set Queue")
	}
	for field, name := range map[string]string{"queue": o.Queue, "exchange": o.Exchange, "key": o.Key} {
		if len(name) > mostName {
			return o, fmt.Errorf("rabbitmq: %s: a name of %d bytes is longer than %d", field, len(name), mostName)
		}
	}
	return o, nil
}
