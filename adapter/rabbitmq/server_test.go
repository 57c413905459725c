package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/internal/testrabbit"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

var broker *testrabbit.Server

func TestMain(m *testing.M) {
	var err error
	if broker, err = testrabbit.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := broker.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var names atomic.Int64

// queue makes a new queue name.
func queue() string { return fmt.Sprintf("q %d/ä", names.Add(1)) }

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// channel opens a channel for the test itself.
func channel(t testing.TB) *amqp.Channel {
	t.Helper()
	c, err := amqp.Dial(broker.URL())
	must(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			t.Error(err)
		}
	})
	ch, err := c.Channel()
	must(t, err)
	return ch
}

func openSource(t testing.TB, o rabbitmq.Options) *rabbitmq.Source {
	t.Helper()
	s, err := rabbitmq.OpenSource(context.Background(), broker.URL(), o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openSink(t testing.TB, o rabbitmq.Options) *rabbitmq.Sink {
	t.Helper()
	s, err := rabbitmq.OpenSink(context.Background(), broker.URL(), o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t testing.TB, o rabbitmq.Options, list ...*pipeline.Transaction) {
	t.Helper()
	s := openSink(t, o)
	for _, transaction := range list {
		must(t, s.Dispatch(context.Background(), transaction))
	}
	must(t, s.Close())
}

// fetch gets n deliveries; n may exceed the prefetch.
func fetch(t testing.TB, s *rabbitmq.Source, n int) (list []pipeline.Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for len(list) < n {
		got, err := s.Fetch(ctx, pipeline.FetchRequest{Max: n - len(list), Wait: time.Hour})
		if err != nil {
			t.Fatalf("%d of %d delivered: %v", len(list), n, err)
		}
		list = append(list, got...)
	}
	return list
}

func restart(t *testing.T) { restartAfter(t, broker.Stop) }

func restartAfter(t *testing.T, end func() error) {
	t.Helper()
	if err := errors.Join(end(), broker.Run()); err != nil {
		t.Error(err)
	}
}

// policyOf makes a policy whose run ends when the queue is empty.
func policyOf(size, concurrency int) (p policy.Consumer) {
	p.Loop.Concurrency.Value, p.Loop.Batch.Size, p.Loop.Batch.Interval = concurrency, size, 100*time.Millisecond
	p.Loop.Timeout = 5 * time.Minute
	return p
}
