package address_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/internal/address"
)

func TestO1AURLWithAControlCharacterIsRefused(t *testing.T) {
	for _, url := range []string{
		"postgres://host/db?table=a%00b", "postgres://host/db?table=a\x00b", "file:a\nb.jsonl", "nats://host/S%0a", "amqp://host/q?key=%7F",
		"jobs:sqlite:a?queue=%1b[31m", "https://u:p%0D@host/", "postgres://host/db?table=%C2%85",
	} {
		if err := address.Check(url); err == nil || strings.Contains(err.Error(), "host") {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, url := range []string{"", "postgres://u:p%40ss@host/db?table=a%20b%C3%A9", "file:100%.jsonl", "file:%zz%2", "https://host/%E2%82%AC", "a%3"} {
		if err := address.Check(url); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestO1ANameWithAControlCharacterIsNamed(t *testing.T) {
	if err := address.CheckNames("table", "orders", "id", "a\x00b"); err == nil || err.Error() != `id: "a\x00b" holds a control character` {
		t.Errorf("error %v", err)
	}
	if err := address.CheckNames("table", "orders"); err != nil {
		t.Error(err)
	}
}

func TestAnErrorOfOpeningNamesTheHostsOnly(t *testing.T) {
	for servers, want := range map[string]string{
		"nats://u:secret@one:4222/S?consumer=c":     "one:4222",
		"one:4222, tls://u:se/cret@two:4222":        "one:4222, two:4222",
		"nats://u:s@cret@[::1]:4222#x,nats://three": "[::1]:4222, three",
		"": "",
	} {
		if got := address.Hosts(servers); got != want {
			t.Errorf("%q: %q", servers, got)
		}
	}
	down := errors.New("nats: no servers available")
	err := address.Kind("nats").OpenError("nats://u:secret@one:4222", down)
	if err.Error() != "nats: open one:4222: no servers available" || !errors.Is(err, down) {
		t.Error(err)
	}
}

func TestAnErrorSaysEverythingOnce(t *testing.T) {
	for text, want := range map[string]string{
		"timeout":       "nats: begin: timeout",
		"nats: timeout": "nats: begin: timeout",
		"context deadline exceeded\nnats: no servers":                 "nats: begin: context deadline exceeded; no servers",
		"record: nats: timeout":                                       "nats: begin: record: timeout",
		"failed:\n\thost:1 (host): refused\n\thost:1 (host): refused": "nats: begin: failed: host:1 (host): refused",
		"failed:\n\tone: refused\n\ttwo: refused":                     "nats: begin: failed: one: refused; two: refused",
		"resolving: no such host\nno such host":                       "nats: begin: resolving: no such host",
	} {
		if err := address.Kind("nats").Wrap("begin", errors.New(text)); err.Error() != want {
			t.Errorf("%q: %q, want %q", text, err, want)
		}
	}
	if err := address.Kind("nats").Wrap("begin", nil); err != nil {
		t.Error(err)
	}
}

func TestO3AServerThatCannotBeReadIsNotShown(t *testing.T) {
	for _, servers := range []string{"nats://ann:secret%zz@one", "one,ann:secret@two:port", "tls://one, nats://ann:se/cret@two"} {
		if err := address.Kind("nats").Readable(servers); err == nil || strings.Contains(err.Error(), "cret") {
			t.Errorf("%q: %v", servers, err)
		}
	}
	for _, servers := range []string{"", "one", "nats://ann:s%2Fecret@one:4222, two:4222", "tls://[::1]:4222"} {
		if err := address.Kind("nats").Readable(servers); err != nil {
			t.Errorf("%q: %v", servers, err)
		}
	}
}
