package rabbitmq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
)

func TestL11URLsSetOptions(t *testing.T) {
	for text, want := range map[string]struct {
		server string
		o      rabbitmq.Options
	}{
		"amqp://localhost/orders":        {"amqp://localhost", rabbitmq.Options{Queue: "orders"}},
		"amqps://u:p%40w@host:1/a%2Fb":   {"amqps://u:p%40w@host:1", rabbitmq.Options{Queue: "a/b"}},
		"amqp://host/v/q":                {"amqp://host/v", rabbitmq.Options{Queue: "q"}},
		"amqp://host/%2Fv/q?heartbeat=5": {"amqp://host/%2Fv?heartbeat=5", rabbitmq.Options{Queue: "q"}},
		"amqp://host?exchange=x&key=a.b": {"amqp://host", rabbitmq.Options{Exchange: "x", Key: "a.b"}},
		"amqp://host/q?declare=quorum&prefetch=20&timeout=3s": {
			"amqp://host", rabbitmq.Options{Queue: "q", Declare: rabbitmq.Quorum, Prefetch: 20, Timeout: 3 * time.Second},
		},
	} {
		server, o, err := rabbitmq.ParseURL(text)
		if err != nil || server != want.server {
			t.Errorf("%s: server %s, %v", text, server, err)
		}
		if diff := cmp.Diff(want.o, o, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "TLS" }, cmp.Ignore())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestL11InvalidURLs(t *testing.T) {
	for text, says := range map[string]string{
		"http://host/q":             "scheme",
		"amqp://u:secret%@host/q":   "cannot be read",
		"amqp://host/a/b/c":         "%2F",
		"amqp://host/q?prefetch=0":  "prefetch",
		"amqp://host/q?key=a%00b":   "control character",
		"amqp://host/q?timeout=3":   "timeout",
		"amqp://host/q?colour=blue": "colour",
	} {
		_, _, err := rabbitmq.ParseURL(text)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestL11InvalidOptions(t *testing.T) {
	for says, o := range map[string]rabbitmq.Options{
		"queue's name is missing": {},
		"prefetch":                {Queue: "q", Prefetch: 1 << 16},
		"timeout":                 {Queue: "q", Timeout: -1},
		"declare":                 {Queue: "q", Declare: "stream"},
		"longer than 255":         {Queue: strings.Repeat("q", 256)},
		"NOT_FOUND":               {Queue: "is not there"},
	} {
		if _, err := rabbitmq.OpenSource(t.Context(), broker.URL(), o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("OpenSource, %s: %v", says, err)
		}
	}
	if _, err := rabbitmq.OpenSink(t.Context(), broker.URL(), rabbitmq.Options{}); err == nil {
		t.Error("OpenSink without a queue succeeded")
	}
	_, err := rabbitmq.OpenSource(t.Context(), "amqp://u:secret%@host/", rabbitmq.Options{Queue: "q"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a server's URL that cannot be read: %v", err)
	}
}
