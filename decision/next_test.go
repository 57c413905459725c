package decision_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

var surfaces = []policy.Surface{policy.SurfaceCall, policy.SurfaceJob, policy.SurfaceStep}

var allKinds = []classify.Kind{classify.Success, classify.Retryable, classify.NonRetryable, classify.Abort}

// TestD4OrderOfJudgement goes through all combinations: the first reason in the order of judgement decides.
func TestD4OrderOfJudgement(t *testing.T) {
	r := policy.Retry{
		MaxAttempts: 3, InitialBackoff: 100 * time.Millisecond, BackoffMultiplier: 2, MaxBackoff: time.Second,
		Jitter: policy.JitterNone, MaxPushback: time.Minute,
	}
	bools := []bool{false, true}
	for _, kind := range allKinds {
		for _, exhausted := range bools {
			for _, long := range bools {
				for _, late := range bools {
					for _, surface := range surfaces {
						name := fmt.Sprintf("%s/exhausted=%t/long=%t/late=%t/%s", kind, exhausted, long, late, surface)
						o := classify.Outcome{Kind: kind, Reason: policy.ReasonCanceled}
						s := decision.State{Surface: surface, Attempt: 2, Left: time.Hour, LeftReason: policy.ReasonOverallTimeout}
						if exhausted {
							s.Attempt = 3
						}
						if long {
							o.Pushback = time.Minute + 1
						}
						if late {
							s.Left = 200 * time.Millisecond
						}
						var want decision.Verdict
						switch {
						case kind == classify.Success:
							want = decision.Verdict{Action: decision.Done, Reason: policy.ReasonSuccess}
						case kind == classify.Abort:
							want = decision.Verdict{Action: decision.Stop, Reason: policy.ReasonCanceled}
						case kind == classify.NonRetryable:
							want = decision.Verdict{Action: decision.Stop, Reason: policy.ReasonNonRetryable}
						case exhausted:
							want = decision.Verdict{Action: decision.Stop, Reason: policy.ReasonAttemptsExhausted}
						case long && surface != policy.SurfaceJob:
							want = decision.Verdict{Action: decision.Stop, Reason: policy.ReasonPushbackTooLong}
						case late:
							want = decision.Verdict{Action: decision.Stop, Reason: policy.ReasonOverallTimeout}
						case long:
							want = decision.Verdict{Action: decision.Retry, Delay: time.Minute, Reason: policy.ReasonRetry}
						default:
							want = decision.Verdict{Action: decision.Retry, Delay: 200 * time.Millisecond, Reason: policy.ReasonRetry}
						}
						if diff := cmp.Diff(want, decision.Next(&r, &s, &o)); diff != "" {
							t.Errorf("%s: %s", name, diff)
						}
					}
				}
			}
		}
	}
}

func TestD4Boundaries(t *testing.T) {
	r := policy.Retry{
		MaxAttempts: 3, InitialBackoff: 100, BackoffMultiplier: 2, MaxBackoff: 1000, Jitter: policy.JitterNone, MaxPushback: 5000,
	}
	stop := func(reason policy.Reason) decision.Verdict {
		return decision.Verdict{Action: decision.Stop, Reason: reason}
	}
	retry := func(d time.Duration) decision.Verdict {
		return decision.Verdict{Action: decision.Retry, Delay: d, Reason: policy.ReasonRetry}
	}
	const unbounded = decision.Unbounded
	cases := map[string]struct {
		state    decision.State
		pushback time.Duration
		want     decision.Verdict
	}{
		"first retry waits the backoff":         {decision.State{Attempt: 1, Left: unbounded}, 0, retry(100)},
		"second retry":                          {decision.State{Attempt: 2, Left: unbounded}, 0, retry(200)},
		"third attempt was the last":            {decision.State{Attempt: 3, Left: unbounded}, 0, stop(policy.ReasonAttemptsExhausted)},
		"beyond the last":                       {decision.State{Attempt: 4, Left: unbounded}, 0, stop(policy.ReasonAttemptsExhausted)},
		"the state's maximum is lower":          {decision.State{Attempt: 2, MaxAttempts: 2, Left: unbounded}, 0, stop(policy.ReasonAttemptsExhausted)},
		"the state's maximum is higher":         {decision.State{Attempt: 3, MaxAttempts: 4, Left: unbounded}, 0, retry(400)},
		"a maximum of one":                      {decision.State{Attempt: 1, MaxAttempts: 1, Left: unbounded}, 0, stop(policy.ReasonAttemptsExhausted)},
		"a negative maximum takes the policy's": {decision.State{Attempt: 3, MaxAttempts: -1, Left: unbounded}, 0, stop(policy.ReasonAttemptsExhausted)},
		"the deadline is at the next attempt":   {decision.State{Attempt: 1, Left: 100, LeftReason: policy.ReasonDeadlineExceeded}, 0, stop(policy.ReasonDeadlineExceeded)},
		"the deadline is just after its start":  {decision.State{Attempt: 1, Left: 101, LeftReason: policy.ReasonDeadlineExceeded}, 0, retry(100)},
		"the deadline has passed":               {decision.State{Attempt: 1, Left: -1, LeftReason: policy.ReasonOverallTimeout}, 0, stop(policy.ReasonOverallTimeout)},
		"no time is left":                       {decision.State{Attempt: 1, LeftReason: policy.ReasonOverallTimeout}, 0, stop(policy.ReasonOverallTimeout)},
		"the pushback passes the deadline":      {decision.State{Attempt: 1, Left: 101, LeftReason: policy.ReasonOverallTimeout}, 101, stop(policy.ReasonOverallTimeout)},
		"shorter pushback":                      {decision.State{Attempt: 1, Left: unbounded}, 99, retry(100)},
		"longer pushback":                       {decision.State{Attempt: 1, Left: unbounded}, 101, retry(101)},
		"the longest allowed pushback":          {decision.State{Attempt: 1, Left: unbounded}, 5000, retry(5000)},
		"pushback longer than allowed":          {decision.State{Attempt: 1, Left: unbounded}, 5001, stop(policy.ReasonPushbackTooLong)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := classify.Outcome{Kind: classify.Retryable, Pushback: c.pushback}
			if diff := cmp.Diff(c.want, decision.Next(&r, &c.state, &o)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestD4SaturatedDelayOfUnboundedWorkIsARetry: a step without a cap can reach the longest duration, which must not count as the
// deadline of unbounded work.
func TestD4SaturatedDelayOfUnboundedWorkIsARetry(t *testing.T) {
	r := policy.Retry{MaxAttempts: 1000, InitialBackoff: time.Second, BackoffMultiplier: 2, Jitter: policy.JitterNone}
	s := decision.State{Surface: policy.SurfaceStep, Attempt: 100, Left: math.MaxInt64}
	want := decision.Verdict{Action: decision.Retry, Delay: math.MaxInt64, Reason: policy.ReasonRetry}
	if diff := cmp.Diff(want, decision.Next(&r, &s, &classify.Outcome{Kind: classify.Retryable})); diff != "" {
		t.Error(diff)
	}
	s.Left, s.LeftReason = math.MaxInt64-1, policy.ReasonOverallTimeout
	if v := decision.Next(&r, &s, &classify.Outcome{Kind: classify.Retryable}); v.Action != decision.Stop {
		t.Errorf("bounded work: %+v", v)
	}
}

func TestD4AttemptsNeverPassTheMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, seed := policies(t), seeds(t)
		limit := rapid.IntRange(0, 50).Draw(t, "limit")
		s := decision.State{Surface: policy.SurfaceCall, MaxAttempts: limit, Left: decision.Unbounded, Seed: seed}
		effective := limit
		if limit == 0 {
			effective = r.MaxAttempts
		}
		attempts := 0
		for {
			attempts++
			s.Attempt = attempts
			v := decision.Next(r, &s, &classify.Outcome{Kind: classify.Retryable})
			if v.Action == decision.Retry {
				continue
			}
			if v.Reason != policy.ReasonAttemptsExhausted || v.Delay != 0 || attempts != effective {
				t.Fatalf("ended with %+v after %d of %d attempts", v, attempts, effective)
			}
			return
		}
	})
}

// states draws states of work in progress.
func states(t *rapid.T) decision.State {
	s := decision.State{
		Surface: rapid.SampledFrom(surfaces).Draw(t, "surface"),
		Attempt: rapid.IntRange(1, 100).Draw(t, "attempt"),
		Left:    decision.Unbounded,
		Seed:    seeds(t),
	}
	if rapid.Bool().Draw(t, "bounded") {
		s.Left, s.LeftReason = waits(t, "left"), policy.ReasonDeadlineExceeded
	}
	return s
}

func TestD4NeverSleepsPastTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, s := policies(t), states(t)
		v := decision.Next(r, &s, &classify.Outcome{Kind: classify.Retryable, Pushback: waits(t, "pushback")})
		switch v.Action {
		case decision.Retry:
			if s.Left != decision.Unbounded && v.Delay >= s.Left || s.Attempt >= r.MaxAttempts {
				t.Fatalf("%+v with %d left, attempt %d of %d", v, s.Left, s.Attempt, r.MaxAttempts)
			}
		case decision.Done:
			t.Fatal("a failure is done")
		case decision.Stop:
			if v.Delay != 0 || v.Reason == "" {
				t.Fatalf("%+v", v)
			}
		}
	})
}

func TestD5DelayIsNeverShorterThanAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, s, pushback := policies(t), states(t), waits(t, "pushback")
		v := decision.Next(r, &s, &classify.Outcome{Kind: classify.Retryable, Pushback: pushback})
		own := decision.Delay(r, s.Seed, s.Attempt-1)
		if pushback > r.MaxPushback && s.Surface != policy.SurfaceJob && v.Action == decision.Retry {
			t.Fatalf("%s longer than %s was waited for: %+v", pushback, r.MaxPushback, v)
		}
		if v.Action == decision.Retry && v.Delay != max(own, min(pushback, r.MaxPushback)) {
			t.Fatalf("delay %d, own %d, asked %d of at most %d", v.Delay, own, pushback, r.MaxPushback)
		}
	})
}

func TestD5PushbackOfEachSurface(t *testing.T) {
	r := policy.Retry{
		MaxAttempts: 5, InitialBackoff: time.Second, BackoffMultiplier: 2, MaxBackoff: 10 * time.Second,
		Jitter: policy.JitterNone, MaxPushback: time.Minute,
	}
	for _, surface := range surfaces {
		for _, pushback := range []time.Duration{time.Millisecond, 30 * time.Second, time.Minute, time.Hour, math.MaxInt64} {
			t.Run(fmt.Sprint(surface, "/", pushback), func(t *testing.T) {
				want := decision.Verdict{Action: decision.Retry, Delay: min(max(pushback, time.Second), time.Minute), Reason: policy.ReasonRetry}
				if pushback > time.Minute && surface != policy.SurfaceJob {
					want = decision.Verdict{Action: decision.Stop, Reason: policy.ReasonPushbackTooLong}
				}
				s := decision.State{Surface: surface, Attempt: 1, Left: decision.Unbounded}
				got := decision.Next(&r, &s, &classify.Outcome{Kind: classify.Retryable, Pushback: pushback})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestD6ReasonsOfAborts(t *testing.T) {
	kept := map[policy.Reason]bool{
		policy.ReasonCanceled: true, policy.ReasonDeadlineExceeded: true, policy.ReasonOverallTimeout: true,
		policy.ReasonCanceledInternal: true, policy.ReasonPanicInClassifier: true, policy.ReasonPanicInBudget: true,
		policy.ReasonPanicInObserver: true, policy.ReasonPanicInTrigger: true,
	}
	r := policy.Retry{MaxAttempts: 3}
	for _, info := range policy.Reasons() {
		want := decision.Verdict{Action: decision.Stop, Reason: policy.ReasonAborted}
		if kept[info.Reason] {
			want.Reason = info.Reason
		}
		o := classify.Outcome{Kind: classify.Abort, Reason: info.Reason}
		if diff := cmp.Diff(want, decision.Next(&r, &decision.State{Attempt: 1, Left: decision.Unbounded}, &o)); diff != "" {
			t.Errorf("%s: %s", info.Reason, diff)
		}
	}
}

func TestD6EveryReasonIsDocumented(t *testing.T) {
	known := map[policy.Reason]bool{}
	for _, info := range policy.Reasons() {
		known[info.Reason] = true
	}
	rapid.Check(t, func(t *rapid.T) {
		r, s := policies(t), states(t)
		f := decision.Facts{
			Failed:   rapid.Bool().Draw(t, "failed"),
			Ended:    rapid.SampledFrom([]policy.Reason{"", policy.ReasonCanceled, policy.ReasonDeadlineExceeded, policy.ReasonOverallTimeout}).Draw(t, "ended"),
			TimedOut: rapid.Bool().Draw(t, "timed out"),
			Mark:     rapid.SampledFrom([]classify.Mark{classify.Unmarked, classify.MarkPermanent, classify.MarkBusiness, classify.MarkAfter}).Draw(t, "mark"),
			Pushback: waits(t, "pushback"),
		}
		r.AbortOn = rapid.SampledFrom([][]policy.Class{nil, {"dns"}, {"tls"}}).Draw(t, "abort_on")
		r.RetryOn = rapid.SampledFrom([][]policy.Class{nil, {"network"}, {"sql"}}).Draw(t, "retry_on")
		if rapid.Bool().Draw(t, "class") {
			f.Classes = []classify.Match{{Class: policy.ClassDNS}}
		}
		o, rule := decision.Judge(r, &f)
		if !known[o.Reason] || rule == "" {
			t.Fatalf("outcome %+v by rule %q", o, rule)
		}
		if v := decision.Next(r, &s, &o); !known[v.Reason] {
			t.Fatalf("verdict %+v", v)
		}
	})
}

// TestD7ComputedVerdictsCanBeComputedAgain: only delays that user code computed are recorded as external; all others must
// follow from the records.
func TestD7ComputedVerdictsCanBeComputedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, s := policies(t), states(t)
		const exact = 1 << 50 // nanoseconds up to which a number of seconds in JSON is exact
		r.InitialBackoff, r.MaxBackoff, r.MaxPushback = min(r.InitialBackoff, exact), min(r.MaxBackoff, exact), min(r.MaxPushback, exact)
		o := classify.Outcome{Kind: rapid.SampledFrom(allKinds).Draw(t, "kind"), Pushback: waits(t, "pushback")}
		first := decision.Next(r, &s, &o)
		text, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var recorded policy.Retry
		if err := recorded.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		other := states(t)
		decision.Next(r, &other, &o) // requests of other work meanwhile leave no state
		if diff := cmp.Diff(first, decision.Next(&recorded, &s, &o)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestActionsMarshal(t *testing.T) {
	for action, want := range map[decision.Action]string{decision.Done: "done", decision.Retry: "retry", decision.Stop: "stop"} {
		if text, err := action.MarshalText(); string(text) != want || err != nil || action.String() != want {
			t.Errorf("%d: %s, %s, %v", action, text, action, err)
		}
	}
}
