package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// acts draws the acts of a step: values, errors of all kinds, panics, slow calls and calls that ignore their context.
func acts(t *rapid.T, label string) []act {
	list := make([]act, rapid.IntRange(1, 3).Draw(t, label+" acts"))
	for i := range list {
		list[i] = act{
			takes: time.Duration(rapid.IntRange(0, 5000).Draw(t, "takes")) * time.Millisecond,
			deaf:  rapid.IntRange(0, 9).Draw(t, "deaf") == 0,
			err:   rapid.SampledFrom([]error{nil, nil, errDown, classify.Business(errDown), classify.Permanent(errDown), classify.After(errDown, 3*time.Second)}).Draw(t, "err"),
		}
		if rapid.IntRange(0, 19).Draw(t, "panic") == 0 {
			list[i].panic = "drawn"
		}
	}
	return list
}

func scriptOf(t *rapid.T, names []string) *script {
	s := &script{
		process: map[string][]act{}, success: map[string][]act{}, exception: map[string][]act{},
		handlers: rapid.SampledFrom([]string{"", "s", "e", "se"}).Draw(t, "handlers"),
	}
	for _, id := range names {
		s.process[id], s.success[id], s.exception[id] = acts(t, "process"), acts(t, "success"), acts(t, "exception")
	}
	return s
}

// offset keeps timeouts from coinciding with other events, because their order would be random.
const offset = 7 * time.Microsecond

// apart keeps the end of a fetch from coinciding with the end of another fetch or of work, because the need for another fetch
// would depend on their order.
func apart(answers []answer) []answer {
	for i := range answers {
		answers[i].takes += time.Duration(i+1) * 11 * time.Microsecond
	}
	return answers
}

func policyOf(t *rapid.T) policy.Consumer {
	p := consumerPolicy(rapid.IntRange(1, 5).Draw(t, "concurrency"), rapid.IntRange(1, 6).Draw(t, "batch"))
	for _, s := range []*policy.Step{&p.Steps.Process, &p.Steps.Success, &p.Steps.Exception} {
		*s = retries(rapid.IntRange(1, 3).Draw(t, "attempts"))
		s.Retry.TimeoutPerAttempt = rapid.SampledFrom([]time.Duration{0, 2*time.Second + offset}).Draw(t, "attempt timeout")
	}
	p.Steps.Fetch.Retry = retries(2).Retry
	p.Loop.TransactionTimeout = rapid.SampledFrom([]time.Duration{0, 4*time.Second + 3*offset}).Draw(t, "transaction timeout")
	p.Loop.Timeout = rapid.SampledFrom([]time.Duration{0, 15*time.Second + 5*offset}).Draw(t, "loop timeout")
	p.Loop.Limit = rapid.SampledFrom([]int{0, 7}).Draw(t, "limit")
	return p
}

// lot is a source that delivers a fixed list in batches of any size, sometimes too large and sometimes with an error, and
// counts the settlements.
type lot struct {
	*scripted
	handed int
}

func drawLot(t *rapid.T, names []string) *lot {
	var answers []answer
	for len(names) > 0 {
		n := min(rapid.IntRange(1, 4).Draw(t, "piece"), len(names))
		answers = append(answers, answer{
			ids: names[:n], takes: time.Duration(rapid.IntRange(0, 2000).Draw(t, "fetch takes")) * time.Millisecond,
			deaf: rapid.Bool().Draw(t, "deaf fetch"),
		})
		names = names[n:]
		if rapid.IntRange(0, 9).Draw(t, "fetch fails") == 0 {
			answers = append(answers, answer{err: errDown})
		}
	}
	return &lot{scripted: newScripted(append(apart(answers), answer{err: pipeline.ErrEnd})...)}
}

func (l *lot) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	got, err := l.scripted.Fetch(ctx, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handed += len(got)
	return got, err
}

// TestL4EveryDeliveryEndsOnceWhateverHappens draws failures, timeouts, cancellations, drains and duplicates.
func TestL4EveryDeliveryEndsOnceWhateverHappens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"}), 1, 16).Draw(r, "ids")
		s, p := scriptOf(r, []string{"a", "b", "c", "d", "e", "f", "g", "h"}), policyOf(r)
		stop := rapid.SampledFrom([]string{"", "cancel", "drain"}).Draw(r, "stop")
		at := time.Duration(rapid.IntRange(0, 20_000).Draw(r, "at")) * time.Millisecond
		source := drawLot(r, names)
		var fault string
		synctest.Test(t, func(*testing.T) {
			source.start = time.Now()
			failed := func(format string, args ...any) { fault += fmt.Sprintf(format, args...) + "\n" }
			var l ledger
			var watched totals
			consumer := pipeline.NewConsumer(source, s.task(), p, l.option(), quiet, pipeline.WithGrace(3*time.Second),
				pipeline.WithObserver(&watched))
			ctx, cancel := context.WithCancel(bg)
			defer cancel()
			switch stop {
			case "cancel":
				time.AfterFunc(at, cancel)
			case "drain":
				time.AfterFunc(at, consumer.Drain)
			}
			summary, _ := consumer.Run(ctx)
			time.Sleep(time.Hour) // abandoned calls return
			synctest.Wait()
			if len(s.twice) > 0 || s.most > p.Loop.Concurrency.Value {
				failed("%d in flight at once, twice: %v", s.most, s.twice)
			}
			if len(l.ends) != source.handed {
				failed("%d delivered, %d ended", source.handed, len(l.ends))
			}
			if summary.Ended() != summary.Fetched || summary.Fetched > source.handed {
				failed("%+v of %d", summary, source.handed)
			}
			acked, nacked := 0, 0
			for _, e := range l.ends {
				switch e.Outcome {
				case pipeline.Success, pipeline.Exception:
					acked++
				default:
					nacked++
				}
				if (e.Err == nil) != (e.Outcome == pipeline.Success) {
					failed("%s with %v", e.Outcome, e.Err)
				}
			}
			if diff := cmp.Diff(l.totals(source.handed), watched.list()); diff != "" {
				failed("totals of observers: %s", diff)
			}
			if acked != len(source.acked) || nacked != len(source.nacked) {
				failed("%d of %d acknowledged, %d of %d given back", len(source.acked), acked, len(source.nacked), nacked)
			}
		})
		if fault != "" {
			r.Fatal(fault)
		}
	})
}

// TestL4ErrorsUnwrapToTheirCauses checks that errors.Is and errors.As find the cause of every error of the package.
func TestL4ErrorsUnwrapToTheirCauses(t *testing.T) {
	inner := &pipeline.TransactionError{ID: "a", Step: "process", Category: classify.CategorySystem, Cause: errDown}
	errHandler := errors.New("handler")
	outer := &pipeline.TransactionError{ID: "a", Step: "exception", Category: classify.CategorySystem, Cause: errHandler, Earlier: inner}
	if !errors.Is(outer, errDown) || !errors.Is(outer, errHandler) {
		t.Error("a cause is hidden")
	}
	for err, want := range map[error]string{
		inner: "pipeline: transaction a: process: system: down",
		outer: "pipeline: transaction a: exception: system: handler (while handling process: down)",
		&pipeline.ProducerLoopTimeoutError{Producer: "p", Timeout: time.Second}:                          "pipeline: producer p: loop timeout of 1s exceeded",
		&pipeline.ConsumerLoopTimeoutError{Consumer: "c", Timeout: time.Second}:                          "pipeline: consumer c: loop timeout of 1s exceeded",
		&pipeline.FetchTimeoutError{FetchError: pipeline.FetchError{Pipeline: "orders", Cause: errDown}}: "pipeline: orders: fetch timed out: down",
		&pipeline.PayloadError{ID: "a", Err: errDown}:                                                    "pipeline: transaction a: payload: down",
		&pipeline.ContractError{Part: "task", Problem: "it is late"}:                                     "pipeline: task: it is late",
	} {
		if err.Error() != want {
			t.Errorf("%q", err.Error())
		}
	}
}
