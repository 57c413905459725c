package natspipe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
)

// slow bounds the wait for a server that does not answer; one that answers is much faster.
const slow = 5 * time.Second

func plain(n int) (list []*pipeline.Transaction) {
	for i := range n {
		list = append(list, pipeline.NewTransaction(fmt.Sprintf("t%d", i), []byte("payload")))
	}
	return list
}

// fetch gets n deliveries.
func fetch(t testing.TB, s *natspipe.Source, n int) (list []pipeline.Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for len(list) < n {
		got, err := s.Fetch(ctx, pipeline.FetchRequest{Max: n - len(list), Wait: time.Second})
		if err != nil {
			t.Fatalf("%d of %d delivered: %v", len(list), n, err)
		}
		list = append(list, got...)
	}
	return list
}

func ackAll(t testing.TB, s *natspipe.Source, list []pipeline.Delivery) {
	t.Helper()
	for _, err := range s.Ack(context.Background(), list) {
		must(t, err)
	}
}

// TestL6AnOutageIsNotAnEmptyStream: an outage must not look like the end of a stream.
func TestL6AnOutageIsNotAnEmptyStream(t *testing.T) {
	t.Parallel()
	n := start(t)
	o := n.stream(t, "orders")
	o.Timeout = slow
	put(t, n, o, plain(3))
	s := openSource(t, n, o)
	defer s.Close()
	sources := []*natspipe.Source{s, openSource(t, n, o)}
	defer sources[1].Close()
	ackAll(t, s, fetch(t, s, 1))
	n.Stop()
	var group sync.WaitGroup // each waits for the timeout
	for i, wait := range []time.Duration{0, 50 * time.Millisecond} {
		group.Go(func() {
			if got, err := sources[i].Fetch(t.Context(), pipeline.FetchRequest{Max: 5, Wait: wait}); len(got) > 0 || err == nil {
				t.Errorf("a fetch from a server that is down gave %d and %v", len(got), err)
			}
		})
	}
	group.Go(func() {
		if s.Check(t.Context()) == nil {
			t.Error("a source whose server is down is healthy")
		}
	})
	group.Wait()
	n.Run()
	for s.Check(t.Context()) != nil {
		if t.Context().Err() != nil {
			t.Fatal("it does not reconnect")
		}
	}
	ackAll(t, s, fetch(t, s, 2))
}

func TestL6ADeletedConsumerIsNotAnEmptyStream(t *testing.T) {
	t.Parallel()
	n := start(t)
	o := n.stream(t, "orders")
	o.Timeout = slow
	s := openSource(t, n, o)
	defer s.Close()
	must(t, n.js(t).DeleteConsumer(t.Context(), o.Stream, natspipe.DefaultConsumer))
	if _, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 5}); err == nil {
		t.Error("a fetch through a consumer that was deleted succeeded")
	}
	if s.Check(t.Context()) == nil {
		t.Error("a source whose consumer was deleted is healthy")
	}
}

// TestL5AFetchOutlivesItsConnection: the connection is lost with the request, or while the request waits.
func TestL5AFetchOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	n := start(t)
	o := n.stream(t, "orders")
	o.AckWait, o.Timeout = slow, time.Minute
	proxy := natstest.Between(t, n.Server)
	s, err := natspipe.OpenSource(t.Context(), proxy.URL(), o)
	must(t, err)
	defer s.Close()
	begin := time.Now()
	for i, wait := range []time.Duration{0, time.Hour} {
		put(t, n, o, plain(2)[i:i+1])
		proxy.CutOn("MSG.NEXT", true)
		got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 5, Wait: wait})
		if len(got) != 1 || err != nil {
			t.Fatalf("%d with a wait of %v, %v", len(got), wait, err)
		}
		ackAll(t, s, got)
	}
	fetched := make(chan error)
	go func() {
		_, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 5, Wait: time.Hour})
		fetched <- err
		_, err = s.Fetch(t.Context(), pipeline.FetchRequest{Max: 5, Wait: time.Hour})
		fetched <- err
	}()
	requested(t, n, o, 1)
	proxy.Cut()
	put(t, n, o, plain(3)[2:])
	if err := <-fetched; err != nil {
		t.Error(err)
	}
	requested(t, n, o, 1)
	must(t, s.Close())
	if err := <-fetched; !errors.Is(err, natspipe.ErrClosed) {
		t.Errorf("a fetch whose source was closed: %v", err)
	}
	if took := time.Since(begin); took > o.Timeout/2 {
		t.Errorf("it took %v", took)
	}
}

// TestL5AMessageForAnEarlierRequestIsNotHeldBack: the server still has the request of a fetch that was cancelled, or lost its connection.
func TestL5AMessageForAnEarlierRequestIsNotHeldBack(t *testing.T) {
	t.Parallel()
	n := start(t)
	o := n.stream(t, "orders")
	o.AckWait = 2 * slow
	s := openSource(t, n, o)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		requested(t, n, o, 1)
		cancel()
	}()
	if _, err := s.Fetch(ctx, pipeline.FetchRequest{Max: 5, Wait: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	go func() {
		requested(t, n, o, 2)
		put(t, n, o, plain(1))
	}()
	begin := time.Now()
	got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 5, Wait: 4 * slow})
	if took := time.Since(begin); err != nil || len(got) != 1 || took > o.AckWait {
		t.Errorf("%d, %v after %v", len(got), err, took)
	}
}

// TestL6ALostQuestionIsAskedAgain: an empty fetch asks whether there are messages that the consumer may deliver.
func TestL6ALostQuestionIsAskedAgain(t *testing.T) {
	t.Parallel()
	n := start(t)
	o := n.stream(t, "orders")
	o.Timeout = slow
	proxy := natstest.Between(t, n.Server)
	s, err := natspipe.OpenSource(t.Context(), proxy.URL(), o)
	must(t, err)
	defer s.Close()
	proxy.CutOn("CONSUMER.INFO", true)
	if got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 5}); len(got) > 0 || err != nil {
		t.Errorf("%d, %v", len(got), err)
	}
}

// requested waits until as many requests wait for messages.
func requested(t *testing.T, n node, o natspipe.Options, requests int) {
	t.Helper()
	shows(t, n, o, func(c *jetstream.ConsumerInfo) bool { return c.NumWaiting >= requests })
}

// shows waits until the server says something of the consumer.
func shows(t *testing.T, n node, o natspipe.Options, holds func(*jetstream.ConsumerInfo) bool) {
	t.Helper()
	js := n.js(t)
	natstest.Eventually(t, "what the server says of the consumer", func() bool {
		c, err := js.Consumer(t.Context(), o.Stream, natspipe.DefaultConsumer)
		must(t, err)
		return holds(c.CachedInfo())
	})
}

// TestL6AConsumerAtItsLimitIsNotAnOutage: its server does not answer requests that must not wait before messages are settled.
func TestL6AConsumerAtItsLimitIsNotAnOutage(t *testing.T) {
	t.Parallel()
	n := start(t)
	o := n.stream(t, "orders")
	o.Consumer, o.Timeout = "own", slow
	_, err := n.js(t).CreateConsumer(t.Context(), o.Stream, jetstream.ConsumerConfig{Durable: o.Consumer, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 5})
	must(t, err)
	put(t, n, o, plain(10))
	s := openSource(t, n, o)
	defer s.Close()
	begin := time.Now()
	for i, most := range []int{3, 5, 5} {
		got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: most})
		if want := []int{3, 2, 0}[i]; len(got) != want || err != nil {
			t.Errorf("%d of %d, %v", len(got), want, err)
		}
		for _, d := range got {
			must(t, s.Nack(t.Context(), d, time.Minute, nil))
		}
	}
	if took := time.Since(begin); took > slow {
		t.Errorf("fetches that must not wait took %v", took)
	}
}

// TestL5ALateMessageIsNotLost: the next fetch returns a message for a cancelled fetch, or Close gives it back.
func TestL5ALateMessageIsNotLost(t *testing.T) {
	for name, closes := range map[string]bool{"the next fetch gets it": false, "Close gives it back": true} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			o := n.stream(t, "orders")
			o.AckWait = time.Minute
			s := openSource(t, n, o)
			defer s.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if got, err := s.Fetch(ctx, pipeline.FetchRequest{Max: 5, Wait: 10 * time.Second}); len(got) > 0 || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(got, err)
			}
			put(t, n, o, plain(1))
			count := 1
			if closes {
				waitFor(t, n, o, 1)
				must(t, s.Close())
				s = openSource(t, n, o)
				defer s.Close()
				count = 2
			}
			list := fetch(t, s, 1)
			if list[0].Count != count {
				t.Errorf("its count is %d, want %d", list[0].Count, count)
			}
			ackAll(t, s, list)
		})
	}
}

// waitFor waits until the server has delivered as many messages as are pending.
func waitFor(t *testing.T, n node, o natspipe.Options, pending int) {
	t.Helper()
	shows(t, n, o, func(c *jetstream.ConsumerInfo) bool { return c.NumAckPending == pending })
}

func TestL11DoubleAcksFailWithTheServer(t *testing.T) {
	t.Parallel()
	n := start(t)
	o := n.stream(t, "orders")
	o.DoubleAck, o.Timeout, o.AckWait = true, slow, time.Minute
	put(t, n, o, plain(200))
	s := openSource(t, n, o)
	defer s.Close()
	list := fetch(t, s, 200)
	ackAll(t, s, list[:150])
	waitFor(t, n, o, 50) // immediately, because each was confirmed before
	n.Stop()
	errs := s.Ack(t.Context(), list[150:])
	if len(errs) != 50 {
		t.Fatalf("%d errors of 50", len(errs))
	}
	for i, err := range errs {
		if err == nil {
			t.Errorf("acknowledgement %d was confirmed by a server that is down", i)
		}
	}
	n.Run()
}

func TestL11UnsuitableConsumersAreRejected(t *testing.T) {
	n := start(t)
	o := n.stream(t, "orders")
	for says, config := range map[string]jetstream.ConsumerConfig{
		"ack_policy": {Durable: "none", AckPolicy: jetstream.AckNonePolicy},
		"filter":     {Durable: "filtered", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "orders.other"},
	} {
		_, err := n.js(t).CreateConsumer(t.Context(), o.Stream, config)
		must(t, err)
		wrong := o
		wrong.Consumer, wrong.Subject = config.Durable, "orders.in"
		if _, err := natspipe.OpenSource(t.Context(), n.ClientURL(), wrong); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	conn, err := natsgo.Connect(n.ClientURL())
	must(t, err)
	defer conn.Close()
	js, err := conn.JetStream()
	must(t, err)
	_, err = js.AddConsumer(o.Stream, &natsgo.ConsumerConfig{Durable: "push", DeliverSubject: "x", AckPolicy: natsgo.AckExplicitPolicy})
	must(t, err)
	o.Consumer = "push"
	if _, err := natspipe.OpenSource(t.Context(), n.ClientURL(), o); err == nil || !strings.Contains(err.Error(), "push") {
		t.Errorf("a push consumer: %v", err)
	}
}

// TestL7TheLeaseIsTheShortestWaitOfTheConsumer checks that the shortest of the consumer's waits is the lease.
func TestL7TheLeaseIsTheShortestWaitOfTheConsumer(t *testing.T) {
	n := start(t)
	o := n.stream(t, "orders")
	_, err := n.js(t).CreateConsumer(t.Context(), o.Stream, jetstream.ConsumerConfig{
		Durable: "own", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 5, BackOff: []time.Duration{6 * time.Second, 3 * time.Second},
	})
	must(t, err)
	o.Consumer = "own"
	s := openSource(t, n, o)
	defer s.Close()
	if every := s.ExtendEvery(); every != time.Second {
		t.Errorf("leases of 3 s are extended every %v", every)
	}
}

func TestL11TransactionsArriveUnchanged(t *testing.T) {
	n := start(t)
	o := n.stream(t, "orders", func(c *jetstream.StreamConfig) { c.Subjects = []string{"orders.*"} })
	o.Subject = "orders.new"
	sink := openSink(t, n, o)
	defer sink.Close()
	metadata := map[string]string{
		"traceparent": "00-1", "Nats-Rollup": "all", "nats-expected-stream": "x", "": "empty", "with space": "1", "colon:": "2", "ä": "3",
		"lines": "a\r\nb", "edges": " x ", "Tenet-Own": "t", "text": "ä", "zero": "\x00",
		"Tenet-Id": "other", "Tenet-Correlation-Id": "other", "Tenet-Parent-Id": "other", "Tenet-Attempts": "9", "Tenet-Metadata": `{"a":"b"}`, "Tenet-Reserved": "{}",
	}
	list := []*pipeline.Transaction{
		pipeline.NewTransaction("an ID\nof lines ", nil, pipeline.WithCorrelation("c\r\n"), pipeline.WithParent(" p"), pipeline.WithAttempts(3), pipeline.WithMetadata(metadata)),
		pipeline.NewTransaction("plain", []byte("payload"), pipeline.WithCorrelation("c"), pipeline.WithParent("p")),
	}
	for _, x := range list {
		must(t, sink.Dispatch(t.Context(), x))
	}
	s := openSource(t, n, o)
	defer s.Close()
	for i, d := range fetch(t, s, 2) {
		got, want := d.Transaction, list[i]
		if got.ID() != want.ID() || got.Correlation() != want.Correlation() || got.Parent() != want.Parent() || got.Attempts() != want.Attempts() ||
			string(got.Payload()) != string(want.Payload()) || fmt.Sprint(got.AllMetadata()) != fmt.Sprint(want.With(pipeline.WithMetadata(nil)).AllMetadata()) {
			t.Errorf("%+v arrived instead of %+v", got, want)
		}
	}
}

func TestL11ASinkNeedsASubjectWhereTheStreamHasSeveral(t *testing.T) {
	n := start(t)
	o := n.stream(t, "orders", func(c *jetstream.StreamConfig) { c.Subjects = []string{"orders.*"} })
	if _, err := natspipe.OpenSink(t.Context(), n.ClientURL(), o); err == nil || !strings.Contains(err.Error(), "subject") {
		t.Errorf("a sink that cannot know the subject: %v", err)
	}
	publish(t, n, "orders.paid", nil, "x")
	s := openSource(t, n, o)
	defer s.Close()
	list := fetch(t, s, 1)
	if got := list[0].Transaction.Metadata(natspipe.MetaSubject); got != "orders.paid" {
		t.Errorf("the subject is %q", got)
	}
	ackAll(t, s, list)
}

func TestL4AnOversizedMessageIsNotRetried(t *testing.T) {
	n := start(t)
	o := n.stream(t, "orders", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 << 10 })
	sink := openSink(t, n, o)
	defer sink.Close()
	err := sink.Dispatch(t.Context(), pipeline.NewTransaction("large", make([]byte, 2<<20)))
	if mark, _ := classify.MarkOf(err); !errors.Is(err, natsgo.ErrMaxPayload) || mark != classify.MarkPermanent {
		t.Errorf("2 MiB where the server allows 1 MiB: %v", err)
	}
	err = sink.Dispatch(t.Context(), pipeline.NewTransaction("large", make([]byte, 2<<10)))
	if mark, _ := classify.MarkOf(err); mark != classify.MarkPermanent {
		t.Errorf("2 KiB where the stream allows 1 KiB: %v", err)
	}
	must(t, sink.Dispatch(t.Context(), plain(1)[0]))
}

// TestL4AMessageForAnotherStreamIsAnError dispatches to a subject of another stream.
func TestL4AMessageForAnotherStreamIsAnError(t *testing.T) {
	t.Parallel()
	n := start(t)
	o, other := n.stream(t, "orders"), n.stream(t, "others")
	o.Subject, o.Timeout = "others.in", slow
	sink := openSink(t, n, o)
	defer sink.Close()
	if err := sink.Dispatch(t.Context(), plain(1)[0]); err == nil {
		t.Error("a message for another stream was dispatched")
	}
	s := openSource(t, n, other)
	defer s.Close()
	if got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 1}); len(got) > 0 || err != nil {
		t.Errorf("the other stream has %d, %v", len(got), err)
	}
}

func TestL9ClosedHandlesReturnErrClosed(t *testing.T) {
	n := start(t)
	o := n.stream(t, "orders")
	s, sink := openSource(t, n, o), openSink(t, n, o)
	must(t, s.Close())
	must(t, sink.Close())
	_, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 1})
	for name, err := range map[string]error{"Fetch": err, "Dispatch": sink.Dispatch(t.Context(), plain(1)[0])} {
		if !errors.Is(err, natspipe.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}
