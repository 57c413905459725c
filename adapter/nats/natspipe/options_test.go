package natspipe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/pipeline"
)

func TestParseURL(t *testing.T) {
	server, o, err := natspipe.ParseURL("nats://ann:secret@host:4222/orders?consumer=mail&subject=orders.new&ack_wait=1m&double_ack=true")
	want := natspipe.Options{Stream: "orders", Consumer: "mail", Subject: "orders.new", AckWait: time.Minute, DoubleAck: true}
	if diff := cmp.Diff(want, o, cmpopts.EquateEmpty()); diff != "" || err != nil || server != "nats://ann:secret@host:4222" {
		t.Errorf("%s %v %s", server, err, diff)
	}
	for _, bad := range []string{
		"nats://host", "nats://host/", "nats://host/a/b", "nats://host/s?consumer=a.b", "nats://host/s?ack_wait=soon", "nats://host/s?ack_wait=1ms",
		"nats://host/s?double_ack=perhaps", "nats://host/s?stream=x", "nats://host/s?subject=a%00b", "nats://host/s%0a", "nats://host:port/s", "nats://ann:secret%zz@host/s",
		"nats://ann:secret@a,bob:secret@b:port/s",
	} {
		if _, _, err := natspipe.ParseURL(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestOpenNamesAMissingOption(t *testing.T) {
	n := start(t)
	o := n.stream(t, "orders")
	o.Stream = "nothing"
	if _, err := natspipe.OpenSource(t.Context(), n.ClientURL(), o); err == nil {
		t.Error("a source without a stream")
	}
	if _, err := natspipe.OpenSink(t.Context(), n.ClientURL(), o); err == nil {
		t.Error("a sink without a stream")
	}
	if _, err := natspipe.OpenSource(t.Context(), n.ClientURL(), natspipe.Options{}); err == nil {
		t.Error("options without a stream")
	}
	if _, err := natspipe.OpenSource(t.Context(), "nats://127.0.0.1:1", o); err == nil {
		t.Error("a source without a server")
	}
}

func TestO3AServerThatCannotBeReadIsNotShown(t *testing.T) {
	for _, server := range []string{"nats://ann:secret%zz@127.0.0.1:1", "127.0.0.1:1,ann:secret@127.0.0.1:port"} {
		if _, err := natspipe.OpenSource(t.Context(), server, natspipe.Options{Stream: "orders"}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("a source at %s: %v", server, err)
		}
		if _, err := natspipe.OpenSink(t.Context(), server, natspipe.Options{Stream: "orders"}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("a sink at %s: %v", server, err)
		}
	}
}

// TestL11ForeignMessages checks that a message of another program has a stable ID, and its headers as metadata.
func TestL11ForeignMessages(t *testing.T) {
	n := start(t)
	o := n.stream(t, "orders")
	publish(t, n, "orders.in", map[string]string{"traceparent": "00-a-b-01"}, "plain")
	s := openSource(t, n, o)
	defer s.Close()
	for range 2 {
		got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 5, Wait: 5 * time.Second})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		x := got[0].Transaction
		if x.ID() != "orders:1" || x.Metadata("traceparent") != "00-a-b-01" || string(x.Payload()) != "plain" {
			t.Errorf("%s %v %s", x.ID(), x.AllMetadata(), x.Payload())
		}
		if err := s.Nack(t.Context(), got[0], 0, nil); err != nil {
			t.Fatal(err)
		}
	}
}
