package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestA4EventsHoldAllThatReplayNeeds recomputes every judgement, group outcome, decision and delay from the events of random
// calls.
func TestA4EventsHoldAllThatReplayNeeds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := randomPolicy(rt)
		script := rapid.SliceOfN(rapid.IntRange(0, len(ends)-1), 1, 12).Draw(rt, "script")
		latency := rapid.SliceOfN(rapid.SampledFrom([]int{0, 20, 75, 110, 151, 301, 501}), 1, 12).Draw(rt, "latency")
		cancelled := time.Duration(rapid.SampledFrom([]int{2000, 250, 60, 0}).Draw(rt, "cancelled")) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(bg)
			time.AfterFunc(cancelled, cancel)
			l := &log{}
			e := executor(t, p, func(o *retry.ExecutorOptions) {
				o.Observer = l
				o.Classifiers = map[string]classify.Classifier{"c": classify.Func(classifyQuota)}
			})
			_ = e.Do(ctx, key, scripted(script, latency))
			_ = e.Wait(bg)
			cancel()
			replay(t, l)
		})
	})
}

// randomPolicy draws a policy that uses everything that decisions depend on.
func randomPolicy(rt *rapid.T) policy.Policy {
	p := exact(rapid.IntRange(1, 4).Draw(rt, "attempts"))
	p.Retry.Jitter = rapid.SampledFrom([]policy.Jitter{"none", "full", "equal", "proportional", "decorrelated"}).Draw(rt, "jitter")
	p.Retry.TimeoutPerAttempt = rapid.SampledFrom([]time.Duration{0, 150 * time.Millisecond}).Draw(rt, "timeout")
	p.Retry.OverallTimeout = rapid.SampledFrom([]time.Duration{0, 400 * time.Millisecond}).Draw(rt, "overall")
	p.Retry.ClassifierName = rapid.SampledFrom([]string{"", "c"}).Draw(rt, "classifier")
	p.Retry.RetryOn = rapid.SampledFrom([][]policy.Class{nil, {"timeout"}, {"quota"}}).Draw(rt, "retry_on")
	p.Retry.AbortOn = rapid.SampledFrom([][]policy.Class{nil, {"eof"}}).Draw(rt, "abort_on")
	p.Hedge.Enabled = rapid.Bool().Draw(rt, "hedged")
	p.Hedge.MaxHedges, p.Hedge.HedgeDelay = 2, 50*time.Millisecond
	p.Hedge.CancelOnFirstTerminal = rapid.Bool().Draw(rt, "cancel")
	return p
}

// scripted is an operation that takes turns at the given ends and latencies in ms. With some latencies it ignores its context.
func scripted(script, latency []int) retry.Operation {
	return func(ctx context.Context) error {
		a, _ := retry.AttemptFromContext(ctx)
		wait := time.Duration(latency[a.Number%len(latency)]) * time.Millisecond
		if wait%(2*time.Millisecond) != 0 {
			time.Sleep(wait)
		}
		return after(wait, ends[script[a.Number%len(script)]])(ctx)
	}
}

var ends = []error{
	nil, errDown, errQuota, context.DeadlineExceeded, classify.Permanent(errDown), classify.Business(errDown),
	classify.After(errDown, 30*time.Millisecond), classify.After(errDown, 2*time.Hour),
}

var errQuota = errors.New("quota")

func classifyQuota(_ any, err error) classify.Outcome {
	if !errors.Is(err, errQuota) {
		return classify.Default(nil, err)
	}
	return classify.Outcome{
		Kind: classify.Retryable, Category: classify.CategorySystem, Class: "quota", Reason: policy.ReasonError, Pushback: 5 * time.Millisecond,
	}
}

func replay(t *testing.T, l *log) {
	t.Helper()
	outcomes := map[int]classify.Outcome{}
	for _, e := range l.events {
		switch e.Type {
		case observe.AttemptEnded:
			a := e.Attempt
			if a.Rule == "" {
				continue
			}
			var facts decision.Facts
			if a.Facts != nil {
				facts = *a.Facts
			}
			o, rule := decision.Judge(&e.Policy.Retry, &facts)
			if diff := cmp.Diff(a.Outcome, o); diff != "" || rule != a.Rule {
				t.Errorf("attempt %d by %s, replayed %s: %s", a.Attempt, a.Rule, rule, diff)
			}
			outcomes[a.Attempt] = a.Outcome
		case observe.Decided:
			replayDecision(t, e, outcomes)
		}
	}
}

func replayDecision(t *testing.T, e *observe.Event, outcomes map[int]classify.Outcome) {
	t.Helper()
	d := e.Decision
	if d.Rule != "" {
		want, rule := decision.Judge(&e.Policy.Retry, &d.Facts)
		if d.Group != nil && rule != decision.RuleContext {
			g := decision.Group{CancelOnFirstTerminal: e.Policy.Hedge.CancelOnFirstTerminal}
			for range d.Group {
				g.Launch()
			}
			for _, n := range d.Group {
				g.End(n, outcomes[n])
			}
			var deciding int
			if want, deciding = g.Outcome(); deciding != d.Attempt {
				t.Errorf("attempt %d decided, replayed %d", d.Attempt, deciding)
			}
		}
		if diff := cmp.Diff(d.Outcome, want); diff != "" || rule != d.Rule {
			t.Errorf("decided by %s, replayed %s: %s", d.Rule, rule, diff)
		}
	}
	if v := decision.Next(&e.Policy.Retry, &d.State, &d.Outcome); v != d.Verdict {
		t.Errorf("verdict %+v, replayed %+v", d.Verdict, v)
	}
}
