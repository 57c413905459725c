package rabbitmq_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
)

func TestL4AnUnroutableMessageIsAnError(t *testing.T) {
	there, missing := queue(), queue()
	good := openSink(t, rabbitmq.Options{Queue: there, Declare: rabbitmq.Classic})
	bad := openSink(t, rabbitmq.Options{Queue: missing})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() { // the same IDs concurrently
			for n := range 50 {
				transaction := plain(n + 1)[n]
				if err := bad.Dispatch(t.Context(), transaction); !errors.Is(err, rabbitmq.ErrUnroutable) {
					t.Errorf("%d: a message for a missing queue: %v", i, err)
				}
				if err := good.Dispatch(t.Context(), transaction); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := waiting(t, there); n != 400 {
		t.Errorf("%d messages arrived of 400", n)
	}
	openSink(t, rabbitmq.Options{Queue: missing, Declare: rabbitmq.Classic})
	must(t, bad.Dispatch(t.Context(), plain(1)[0])) // the handle is still usable
}

// TestL4MetadataLargerThanAFrameIsAPermanentError: the broker would end the connection, and with it the dispatches of others.
func TestL4MetadataLargerThanAFrameIsAPermanentError(t *testing.T) {
	const frame = 131072 // the broker's default
	o := rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Classic}
	sink := openSink(t, o)
	with := func(n int) *pipeline.Transaction {
		return pipeline.NewTransaction("id", nil, pipeline.WithCorrelation("c"), pipeline.WithParent("p"), pipeline.WithAttempts(2),
			pipeline.WithMetadata(map[string]string{"x-own": "reserved", "m": strings.Repeat("x", n)}))
	}
	largest := 0
	for n := frame - 200; n < frame; n++ {
		err := sink.Dispatch(t.Context(), with(n))
		if mark, _ := classify.MarkOf(err); mark == classify.MarkPermanent {
			break
		}
		must(t, err)
		largest = n
	}
	if largest == 0 || largest == frame-1 {
		t.Errorf("the largest metadata that were dispatched have %d bytes", largest)
	}
}

func TestL11TransactionsArriveUnchanged(t *testing.T) {
	long := strings.Repeat("ä", 200)
	o := rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Quorum}
	want := pipeline.NewTransaction(long+"id", nil, pipeline.WithCorrelation(long+"c"), pipeline.WithParent(long), pipeline.WithAttempts(3),
		pipeline.WithMetadata(map[string]string{
			"CC": "other", "BCC": "other", "x-delivery-count": "9", "tenet_parent": "p", "tenet_error": "e\r\n\x00", "": "empty", "traceparent": "00-1",
		}))
	put(t, o, want)
	s := openSource(t, o)
	d := fetch(t, s, 1)[0]
	got := d.Transaction
	if got.ID() != want.ID() || got.Correlation() != want.Correlation() || got.Parent() != want.Parent() || got.Attempts() != 3 ||
		fmt.Sprint(got.AllMetadata()) != fmt.Sprint(want.AllMetadata()) || len(got.Payload()) > 0 || d.Count != 1 {
		t.Errorf("%+v (count %d) arrived instead of %+v", got, d.Count, want)
	}
	ackAll(t, s, []pipeline.Delivery{d})
	sink := openSink(t, o)
	if err := sink.Dispatch(t.Context(), want.With(pipeline.WithMetadata(map[string]string{strings.Repeat("n", 256): ""}))); err == nil {
		t.Error("a name that is too long was accepted")
	}
	must(t, sink.Dispatch(t.Context(), want)) // the connection is still usable
}

func TestL11ExchangesRoute(t *testing.T) {
	o := rabbitmq.Options{Queue: queue(), Declare: rabbitmq.Classic}
	s := openSource(t, o)
	must(t, channel(t).QueueBind(o.Queue, "a.*", "amq.topic", false, nil))
	sink := openSink(t, rabbitmq.Options{Exchange: "amq.topic", Key: "a.b"})
	must(t, sink.Dispatch(t.Context(), plain(1)[0]))
	list := fetch(t, s, 1)
	if key := list[0].Transaction.Metadata(rabbitmq.MetaRoutingKey); key != "a.b" {
		t.Errorf("it arrived with the key %q", key)
	}
	ackAll(t, s, list)
	other := openSink(t, rabbitmq.Options{Exchange: "amq.topic", Key: "b"})
	if err := other.Dispatch(t.Context(), plain(1)[0]); !errors.Is(err, rabbitmq.ErrUnroutable) {
		t.Errorf("a key without a queue: %v", err)
	}
}
