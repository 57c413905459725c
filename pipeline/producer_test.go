package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func producerPolicy(concurrency, batch int) policy.Producer {
	var p policy.Producer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size = concurrency, batch
	return p
}

// sinkOf makes a sink that performs the acts of step "produce".
func (s *script) sinkOf(acts map[string][]act) pipeline.Sink {
	return pipeline.SinkFunc(func(ctx context.Context, t *pipeline.Transaction) error {
		return s.act(ctx, "produce", t.ID(), acts)
	})
}

func TestL10ChunksFollowEachOtherAndAreConcurrentInside(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{}
		s.task()
		sink := s.sinkOf(map[string][]act{"a": ok(10 * time.Second), "*": ok(time.Second)})
		summary, err := pipeline.NewProducer(sink, pipeline.Raw{}, producerPolicy(2, 3)).
			Run(bg, pipeline.Values(transactions("a", "b", "c", "d", "e", "f", "g")...))
		if err != nil || summary.Success != 7 || summary.Processed != 7 {
			t.Fatal(summary, err)
		}
		want := []string{
			"0s produce a", "0s produce b", "1s produce c", // d waits for a, though a worker is free
			"10s produce d", "10s produce e", "11s produce f", "12s produce g",
		}
		// Two dispatches that start at the same moment have no order.
		for _, pair := range [][2]int{{0, 1}, {3, 4}} {
			if s.log[pair[0]] > s.log[pair[1]] {
				s.log[pair[0]], s.log[pair[1]] = s.log[pair[1]], s.log[pair[0]]
			}
		}
		if diff := cmp.Diff(want, s.log); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL10AChunkEndsWithTheTransactionsThatItsIDsHoldBack(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{}
		s.task()
		sink := s.sinkOf(map[string][]act{"*": ok(time.Second)})
		summary, err := pipeline.NewProducer(sink, pipeline.Raw{}, producerPolicy(3, 2)).Run(bg, pipeline.Values(transactions("a", "a", "b")...))
		if err != nil || summary.Success != 3 {
			t.Fatal(summary, err)
		}
		if diff := cmp.Diff([]string{"0s produce a", "1s produce a", "2s produce b"}, s.log); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL4InAProducerErrorsOfTheSuccessHandlerAreSystemErrors(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var l ledger
		calls := 0
		task := pipeline.Raw{
			Success: func(context.Context, *pipeline.Transaction, *pipeline.Transaction) error {
				calls++
				return classify.Business(errDown)
			},
			Exception: func(context.Context, *pipeline.Transaction, error) error { return nil },
		}
		p := producerPolicy(1, 1)
		p.Steps.Success = retries(3)
		summary, err := pipeline.NewProducer(&pipeline.MemorySink{}, task, p, l.option()).Run(bg, pipeline.Values(transactions("a")...))
		if err != nil || summary.Exception != 1 || calls != 3 {
			t.Fatal(summary, err, calls)
		}
		var failed *pipeline.TransactionError
		if !errors.As(l.err("a"), &failed) || failed.Category != classify.CategorySystem || failed.Step != "success" || !errors.Is(failed, errDown) {
			t.Errorf("%v", failed)
		}
	})
}

func TestL3ProduceFailuresAreHandled(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{}
		s.task()
		var letters pipeline.MemorySink
		var l ledger
		sink := s.sinkOf(map[string][]act{"a": {{err: errDown}}, "b": {{err: classify.Business(errDown)}}})
		p := producerPolicy(1, 3)
		p.Steps.Produce = retries(2)
		summary, err := pipeline.NewProducer(sink, pipeline.Raw{}, p, pipeline.WithDeadLetter(&letters), pipeline.WithName("invoices"), l.option()).
			Run(bg, pipeline.Values(transactions("a", "b", "c")...))
		if err != nil || summary.Exception != 2 || summary.Success != 1 || summary.Retries != 1 {
			t.Fatal(summary, err)
		}
		for i, want := range []struct {
			id, category string
			attempts     int
		}{{"a", "system", 2}, {"b", "business", 1}} {
			got := letters.Transactions()[i]
			if got.ID() != want.id || got.Metadata(pipeline.MetaCategory) != want.category || got.Attempts() != want.attempts ||
				got.Metadata(pipeline.MetaStep) != "produce" || got.Metadata(pipeline.MetaConsumer) != "invoices" ||
				!strings.Contains(got.Metadata(pipeline.MetaError), "down") {
				t.Errorf("%+v", got)
			}
		}
	})
}

func TestL10AProducersTaskPreparesTransactions(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var sink pipeline.MemorySink
		task := pipeline.Map(func(_ context.Context, x *pipeline.Transaction) (any, error) {
			switch x.ID() {
			case "a":
				return []byte("payload"), nil
			case "b":
				return pipeline.NewTransaction("other", nil), nil
			case "c":
				return 5, nil
			case "d":
				return nil, errDown
			}
			return nil, nil
		})
		given := transactions("a", "b", "c", "d", "e")
		given[0] = given[0].With(pipeline.WithAttempts(3))
		summary, err := pipeline.NewProducer(&sink, task, producerPolicy(1, 1)).Run(bg, pipeline.Values(given...))
		if err != nil || summary.Success != 4 || summary.Failed != 1 {
			t.Fatal(summary, err)
		}
		got := sink.Transactions()
		if diff := cmp.Diff([]string{"a", "other", "c"}, ids(got)); diff != "" {
			t.Fatal(diff)
		}
		if string(got[0].Payload()) != "payload" || got[0].Parent() != "" || got[0].Attempts() != 3 || string(got[2].Payload()) != "5" {
			t.Errorf("%+v %+v", got[0], got[2])
		}
	})
}

func TestL10LimitAndEndsOfInput(t *testing.T) {
	bubble(t, "limit", func(t *testing.T) {
		var sink pipeline.MemorySink
		p := producerPolicy(2, 4)
		p.Loop.Limit = 6
		read := 0
		summary, err := pipeline.NewProducer(&sink, pipeline.Raw{}, p).Run(bg, func(yield func(*pipeline.Transaction, error) bool) {
			for _, x := range transactions(many(20)...) {
				read++
				if !yield(x, nil) {
					return
				}
			}
		})
		if err != nil || summary.Fetched != 6 || summary.Success != 6 || read != 6 {
			t.Error(summary, err, read)
		}
	})
	bubble(t, "error", func(t *testing.T) {
		var sink pipeline.MemorySink
		summary, err := pipeline.NewProducer(&sink, pipeline.Raw{}, producerPolicy(2, 4)).Run(bg, func(yield func(*pipeline.Transaction, error) bool) {
			if yield(transactions("a")[0], nil) {
				yield(nil, errDown)
			}
		})
		if !errors.Is(err, errDown) || summary.Success != 1 {
			t.Error(summary, err)
		}
	})
	bubble(t, "panic", func(t *testing.T) {
		var sink pipeline.MemorySink
		summary, err := pipeline.NewProducer(&sink, pipeline.Raw{}, producerPolicy(2, 4)).Run(bg, func(yield func(*pipeline.Transaction, error) bool) {
			if yield(transactions("a")[0], nil) {
				panic(errDown)
			}
		})
		var panicked *retry.PanicError
		if !errors.As(err, &panicked) || !errors.Is(err, errDown) || summary.Success != 1 {
			t.Error(summary, err)
		}
	})
	bubble(t, "panic at its end", func(t *testing.T) {
		p := producerPolicy(1, 1)
		p.Loop.Limit = 1
		log := slog.New(slog.DiscardHandler)
		summary, err := pipeline.NewProducer(&pipeline.MemorySink{}, pipeline.Raw{}, p, pipeline.WithLogger(log)).Run(bg, func(yield func(*pipeline.Transaction, error) bool) {
			if !yield(transactions("a")[0], nil) {
				panic(errDown)
			}
		})
		if err != nil || summary.Success != 1 {
			t.Error(summary, err)
		}
		synctest.Wait()
	})
	bubble(t, "no sequence", func(t *testing.T) {
		_, err := pipeline.NewProducer(&pipeline.MemorySink{}, pipeline.Raw{}, policy.Producer{}).Run(bg, nil)
		if err == nil || !strings.Contains(err.Error(), "sequence of values is nil") {
			t.Error(err)
		}
	})
	bubble(t, "nil", func(t *testing.T) {
		_, err := pipeline.NewProducer(&pipeline.MemorySink{}, pipeline.Raw{}, policy.Producer{}).Run(bg, pipeline.Values[*pipeline.Transaction](nil))
		var broken *pipeline.ContractError
		if !errors.As(err, &broken) || broken.Part != "input" {
			t.Error(err)
		}
	})
}

func TestL9AProducerOutOfTime(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{}
		s.task()
		p := producerPolicy(2, 4)
		p.Loop.Timeout = 10 * time.Second
		var l ledger
		summary, err := pipeline.NewProducer(s.sinkOf(map[string][]act{"b": ok(time.Hour)}), pipeline.Raw{}, p, pipeline.WithName("invoices"), l.option()).
			Run(bg, pipeline.Values(transactions("a", "b", "c", "d", "e")...))
		var late *pipeline.ProducerLoopTimeoutError
		if !errors.As(err, &late) || late.Producer != "invoices" || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if summary.Success != 3 || summary.Redelivered != 1 || summary.Elapsed != 10*time.Second {
			t.Errorf("%+v", summary)
		}
		if diff := cmp.Diff([]pipeline.Outcome{pipeline.Redelivered}, l.of("b")); diff != "" {
			t.Error(diff)
		}
		synctest.Wait()
	})
}
