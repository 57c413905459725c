package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestD3StepsAreSeededByTransactionAndName: the transaction's ID and the step's name determine the waits of a step.
func TestD3StepsAreSeededByTransactionAndName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(3)
		p.Retry.Jitter = policy.JitterFull
		e := executor(t, p)
		var starts []time.Time
		err := e.DoStep(bg, retry.Step{Key: key, ID: "order-1", Name: "process"}, func(ctx context.Context) error {
			a, _ := retry.AttemptFromContext(ctx)
			if a.CallID() != "order-1" {
				t.Errorf("the step runs under the ID %q", a.CallID())
			}
			starts = append(starts, time.Now())
			return errDown
		})
		if err == nil || len(starts) != 3 {
			t.Fatal(starts, err)
		}
		used := e.Policy(bg, key)
		var want, got []time.Duration
		for i := range 2 {
			want = append(want, decision.Delay(&used.Retry, decision.Seed("order-1/process"), i))
			got = append(got, starts[i+1].Sub(starts[i]))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestR14EventsOfStoredWorkAreNumberedByTurn: the events of a turn have higher numbers than those of earlier turns.
func TestR14EventsOfStoredWorkAreNumberedByTurn(t *testing.T) {
	for turn, first := range map[int]int{0: 1, 1: retry.SeqPerTurn, 3: 3 * retry.SeqPerTurn} {
		l := &log{}
		e := executor(t, exact(1), func(o *retry.ExecutorOptions) { o.Observer = l })
		if err := e.DoStep(bg, retry.Step{Key: key, ID: "order-1", Name: "process", Turn: turn}, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for i, event := range l.events {
			if event.Seq != first+i {
				t.Errorf("turn %d: event %d has the number %d, want %d", turn, i, event.Seq, first+i)
			}
		}
	}
}

// TestL5AStepThatReturnsNilHasSucceeded: its classifier judges errors only, also where attempts are hedged.
func TestL5AStepThatReturnsNilHasSucceeded(t *testing.T) {
	for name, p := range map[string]policy.Policy{"plain": exact(2), "hedged": hedged(2, 1)} {
		synctest.Test(t, func(t *testing.T) {
			p.Retry.ClassifierName = "never"
			e := executor(t, p, func(o *retry.ExecutorOptions) {
				o.Classifiers = map[string]classify.Classifier{"never": classify.Func(func(any, error) classify.Outcome {
					return classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem}
				})}
			})
			op, runs := script(nil)
			if err := e.DoStep(bg, retry.Step{Key: key, ID: "order-1", Name: "process"}, op); err != nil || *runs != 1 {
				t.Errorf("%s: %v after %d runs", name, err, *runs)
			}
		})
	}
}
