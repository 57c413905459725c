package rabbitmq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/pipeline"
)

func plain(n int) (list []*pipeline.Transaction) {
	for i := range n {
		list = append(list, pipeline.NewTransaction(fmt.Sprintf("t%d", i), []byte("payload")))
	}
	return list
}

func ackAll(t testing.TB, s *rabbitmq.Source, list []pipeline.Delivery) {
	t.Helper()
	for _, err := range s.Ack(context.Background(), list) {
		must(t, err)
	}
}

// waiting returns the number of ready messages in a queue.
func waiting(t testing.TB, name string) int {
	t.Helper()
	q, err := channel(t).QueueDeclarePassive(name, true, false, false, false, nil)
	must(t, err)
	return q.Messages
}

func TestL6ABacklogIsNotAnEmptyQueue(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			o := rabbitmq.Options{Queue: queue(), Declare: kind}
			for range 5 {
				put(t, o, plain(30)...)
				s := openSource(t, o)
				p := policyOf(7, 3)
				p.Loop.Batch.Interval = 0
				summary, err := pipeline.NewConsumer(s, pipeline.Handle(func(context.Context, *pipeline.Transaction) error { return nil }), p).Run(t.Context())
				if err != nil || summary.Success != 30 {
					t.Fatalf("a run that must not wait ended with %+v, %v", summary, err)
				}
				must(t, s.Close())
			}
		})
	}
}

// TestL7AHugeBatchIsPrefetchedAsFarAsPossible: twice the batch is more than the 65,535 deliveries that a broker can be asked for.
func TestL7AHugeBatchIsPrefetchedAsFarAsPossible(t *testing.T) {
	o := rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Classic}
	put(t, o, plain(5)...)
	s := openSource(t, o)
	held := 0
	for range 5 {
		got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 1<<15 + 1, Wait: 50 * time.Millisecond})
		must(t, err)
		held += len(got)
	}
	if held != 5 {
		t.Errorf("%d of 5 waiting messages arrived", held)
	}
}

func TestL7TheEngineMayHoldMoreThanThePrefetch(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			o := rabbitmq.Options{Queue: queue(), Declare: kind, Prefetch: 2}
			put(t, o, plain(60)...)
			s := openSource(t, o)
			held := fetch(t, s, 50)
			if n := waiting(t, o.Queue); n == 0 {
				t.Error("the source took all messages, although a small prefetch was enough")
			} else if lag, err := s.Lag(t.Context()); lag != int64(n) || err != nil {
				t.Errorf("U2: a lag of %d, %v, with %d messages waiting", lag, err, n)
			}
			for i, d := range held {
				if d.Count != 1 || d.Transaction.ID() != fmt.Sprintf("t%d", i) {
					t.Fatalf("delivery %d is %s, count %d", i, d.Transaction.ID(), d.Count)
				}
			}
			ackAll(t, s, held)
			ackAll(t, s, fetch(t, s, 10))
			must(t, s.Close())
			if n := waiting(t, o.Queue); n != 0 {
				t.Errorf("%d messages were returned", n)
			}
		})
	}
}

// TestL11DelayedDeliveriesDoNotBlockOthers checks that delayed deliveries neither block others nor get lost.
func TestL11DelayedDeliveriesDoNotBlockOthers(t *testing.T) {
	o := rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Classic, Prefetch: 3}
	put(t, o, plain(40)...)
	s := openSource(t, o)
	for _, d := range fetch(t, s, 30) {
		must(t, s.Nack(t.Context(), d, time.Hour, errors.New("down")))
	}
	ackAll(t, s, fetch(t, s, 10))
	if got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 5}); len(got) > 0 || err != nil {
		t.Fatalf("%d delivered before their delay ended, %v", len(got), err)
	}
	must(t, s.Close())
	again := openSource(t, o)
	list := fetch(t, again, 30)
	for _, d := range list {
		if d.Count < 2 {
			t.Errorf("%s was redelivered with the count %d", d.Transaction.ID(), d.Count)
		}
	}
	ackAll(t, again, list)
}

func TestL11CountsGoOnWithEveryDelivery(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			o := rabbitmq.Options{Queue: queue(), Declare: kind}
			put(t, o, plain(1)...)
			s := openSource(t, o)
			for want := 1; want <= 4; want++ {
				d := fetch(t, s, 1)[0]
				if d.Count != want {
					t.Errorf("delivery %d has the count %d", want, d.Count)
				}
				must(t, s.Nack(t.Context(), d, time.Duration(want%2)*10*time.Millisecond, nil))
			}
		})
	}
}

func TestL11SettledDeliveriesAreNotSettledAgain(t *testing.T) {
	o := rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Classic}
	put(t, o, plain(3)...)
	s := openSource(t, o)
	list := fetch(t, s, 3)
	ackAll(t, s, list[:1])
	must(t, s.Nack(t.Context(), list[1], time.Hour, nil))
	for i, d := range list[:2] {
		if err := s.Nack(t.Context(), d, 0, nil); err == nil {
			t.Errorf("delivery %d was nacked after it was settled", i)
		}
	}
	if errs := s.Ack(t.Context(), list); errs == nil || errs[0] == nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("acknowledging a settled, a delayed and an open delivery: %v", errs)
	}
	foreign := pipeline.Delivery{Transaction: list[0].Transaction}
	if errs := s.Ack(t.Context(), []pipeline.Delivery{foreign}); len(errs) != 1 || errs[0] == nil {
		t.Errorf("a foreign delivery was acknowledged: %v", errs)
	}
}

func TestL5AConsumerCancelledByTheBrokerResumes(t *testing.T) {
	o := rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Classic}
	put(t, o, plain(1)...)
	s := openSource(t, rabbitmq.Options{Queue: o.Queue})
	ackAll(t, s, fetch(t, s, 1))
	ch := channel(t)
	if _, err := ch.QueueDelete(o.Queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	var refused *amqp.Error
	_, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 1, Wait: time.Minute})
	if !errors.As(err, &refused) || refused.Code != amqp.NotFound {
		t.Fatalf("a fetch from a queue that was deleted: %v", err)
	}
	put(t, o, plain(1)...)
	ackAll(t, s, fetch(t, s, 1))
}

func TestL11ForeignMessagesAreRead(t *testing.T) {
	o := rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Classic}
	s := openSource(t, o)
	ch := channel(t)
	must(t, ch.QueueBind(o.Queue, "orders.#", "amq.topic", false, nil))
	must(t, ch.Publish("amq.topic", "orders.new", false, false, amqp.Publishing{
		MessageId: "m", CorrelationId: "c", Body: []byte("body"),
		Headers: amqp.Table{"text": "a", "number": int32(7), "flag": true, "list": []any{"x"}, "x-own": "hidden"},
	}))
	must(t, ch.Publish("", o.Queue, false, false, amqp.Publishing{Body: []byte("no ID")}))
	list := fetch(t, s, 2)
	first := list[0].Transaction
	if first.ID() != "m" || first.Correlation() != "c" || string(first.Payload()) != "body" {
		t.Errorf("%s, %s, %q", first.ID(), first.Correlation(), first.Payload())
	}
	want := map[string]string{"text": "a", "number": "7", "flag": "true", rabbitmq.MetaRoutingKey: "orders.new"}
	if got := first.AllMetadata(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("metadata %v, want %v", got, want)
	}
	if list[1].Transaction.ID() == "" {
		t.Error("a message without an ID got none")
	}
	ackAll(t, s, list)
}

// frozen is a proxy to the broker that can stop forwarding while its connections stay open.
type frozen struct {
	net.Listener
	freeze chan struct{}
	pulse  bool        // heartbeats still arrive
	cut    atomic.Bool // the connection ends at the next queue.declare
}

func between(t *testing.T) *frozen {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f := &frozen{Listener: l, freeze: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", strings.TrimSuffix(broker.URL()[strings.Index(broker.URL(), "@")+1:], "/"))
			if err != nil {
				_ = c.Close()
				continue
			}
			t.Cleanup(func() { _, _ = c.Close(), b.Close() })
			go f.pass(c, b)
			go f.pass(b, c)
			go f.beat(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return f
}

func (f *frozen) pass(to, from net.Conn) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			_ = to.Close()
			return
		}
		select {
		case <-f.freeze:
			continue
		default:
		}
		if bytes.Contains(buffer[:n], []byte{0, 50, 0, 10}) && f.cut.CompareAndSwap(true, false) { // class and method
			_, _ = from.Close(), to.Close()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			_ = from.Close()
			return
		}
	}
}

// beat sends heartbeats to a client after the freeze, if pulse is set.
func (f *frozen) beat(to net.Conn) {
	<-f.freeze
	if !f.pulse {
		return
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := to.Write([]byte{8, 0, 0, 0, 0, 0, 0, 0xce}); err != nil {
			return
		}
	}
}

func (f *frozen) url() string { return "amqp://guest:guest@" + f.Addr().String() + "/" }

// TestL6AnEmptyFetchEndsAfterALostConnection: the time to wait was over when the connection was lost.
func TestL6AnEmptyFetchEndsAfterALostConnection(t *testing.T) {
	f := between(t)
	s, err := rabbitmq.OpenSource(t.Context(), f.url(), rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Classic})
	must(t, err)
	defer s.Close()
	defer close(f.freeze)
	f.cut.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if got, err := s.Fetch(ctx, pipeline.FetchRequest{Max: 1, Wait: time.Millisecond}); len(got) > 0 || err != nil || f.cut.Load() {
		t.Errorf("%d, %v; the connection is still to be lost: %v", len(got), err, f.cut.Load())
	}
}

func TestL9AFrozenBrokerDoesNotBlockCalls(t *testing.T) {
	t.Parallel()
	f := between(t)
	o := rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Classic, Timeout: 5 * time.Second}
	put(t, o, plain(2)...)
	s, err := rabbitmq.OpenSource(t.Context(), f.url(), o)
	must(t, err)
	sink, err := rabbitmq.OpenSink(t.Context(), f.url(), o)
	must(t, err)
	list := fetch(t, s, 2)
	close(f.freeze)

	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := sink.Dispatch(context.Background(), plain(1)[0]); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dispatch: %v", err)
		}
		if got, err := s.Fetch(context.Background(), pipeline.FetchRequest{Max: 1}); err == nil {
			t.Errorf("an unanswered fetch returned %d and no error", len(got))
		}
		if errs := s.Ack(context.Background(), list[:1]); len(errs) != 1 || !errors.Is(errs[0], rabbitmq.ErrLost) {
			t.Errorf("Ack after the connection was lost: %v", errs)
		}
		if err := s.Nack(context.Background(), list[1], time.Hour, nil); !errors.Is(err, rabbitmq.ErrLost) {
			t.Errorf("Nack after the connection was lost: %v", err)
		}
		if err := s.Check(context.Background()); err == nil {
			t.Error("a source without a connection is healthy")
		}
		_, _ = s.Close(), sink.Close()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it hangs")
	}
	for name, err := range map[string]error{"Check": s.Check(t.Context()), "Dispatch": sink.Dispatch(t.Context(), plain(1)[0])} {
		if !errors.Is(err, rabbitmq.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

func TestL9CloseReturnsWhenTheBrokerOnlySendsHeartbeats(t *testing.T) {
	t.Parallel()
	f := between(t)
	f.pulse = true
	o := rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Classic, Timeout: 5 * time.Second}
	s, err := rabbitmq.OpenSource(t.Context(), f.url(), o)
	must(t, err)
	sink, err := rabbitmq.OpenSink(t.Context(), f.url(), o)
	must(t, err)
	close(f.freeze)

	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.Close(), sink.Close()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it hangs")
	}
}

func TestL9OpeningObeysItsContext(t *testing.T) {
	f := between(t)
	close(f.freeze)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := rabbitmq.OpenSource(ctx, f.url(), rabbitmq.Options{Queue: "q"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("OpenSource: %v", err)
	}
}

// TestL9OpeningFailsInWordsWheneverItsContextEnds ends the context at ever later moments, until the last one is late enough.
func TestL9OpeningFailsInWordsWheneverItsContextEnds(t *testing.T) {
	for opened, limit := 0, time.Duration(0); opened < 10; limit += 20 * time.Microsecond {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		sink, err := rabbitmq.OpenSink(ctx, broker.URL(), rabbitmq.Options{Queue: "q"})
		cancel()
		if err == nil {
			opened++
			must(t, sink.Close())
		} else if strings.Contains(err.Error(), "%!") {
			t.Fatalf("after %v: %v", limit, err)
		}
	}
}
