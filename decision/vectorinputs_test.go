package decision_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// vectorInputs returns the inputs of testdata/vectors.json. Changing one changes the file; published decisions must stay, so
// add new cases instead of changing old ones.
func vectorInputs(t *testing.T) *vectors {
	return &vectors{
		Format: 1,
		Seeds: []seedVector{
			{WorkID: ""}, {WorkID: "abc"}, {WorkID: "order-4711"}, {WorkID: "0197a3c0-5d2e-7c44-9d3a-2f8f1f5f0a11"},
			{WorkID: "tx-1", Step: "process"}, {WorkID: "tx-1", Step: "success"}, {WorkID: "tx-1/process"}, {WorkID: "日本語"},
		},
		Draws: []drawVector{
			{Seed: 0, Draws: make([]number, 5)}, {Seed: 1234567, Draws: make([]number, 5)}, {Seed: math.MaxUint64, Draws: make([]number, 5)},
		},
		Delays:     delayInputs(),
		Judgements: judgeInputs(),
		Groups:     groupInputs(),
		Sequences:  sequenceInputs(t),
	}
}

func delayInputs() []delayVector {
	shapes := []struct {
		name string
		r    policy.Retry
	}{
		{"doubling", policy.Retry{InitialBackoff: 10 * ms, BackoffMultiplier: 2, MaxBackoff: 250 * ms}},
		{"by half", policy.Retry{InitialBackoff: 333 * ms, BackoffMultiplier: 1.5, MaxBackoff: 30 * sec}},
		{"by a tenth", policy.Retry{InitialBackoff: 7 * ms, BackoffMultiplier: 1.1, MaxBackoff: 10 * ms}},
		{"constant", policy.Retry{InitialBackoff: sec, BackoffMultiplier: 1, MaxBackoff: 5 * sec}},
		{"no cap", policy.Retry{InitialBackoff: time.Hour, BackoffMultiplier: 10}},
		{"no wait", policy.Retry{BackoffMultiplier: 2, MaxBackoff: sec}},
		{"nanoseconds", policy.Retry{InitialBackoff: 3, BackoffMultiplier: 1.5, MaxBackoff: 100}},
		{"cap below the backoff", policy.Retry{InitialBackoff: 2 * sec, BackoffMultiplier: 2, MaxBackoff: sec}},
	}
	var list []delayVector
	for _, shape := range shapes {
		for i, jitter := range jitters {
			r := shape.r
			r.Jitter = jitter
			if jitter == policy.JitterProportional {
				r.JitterFactor = 0.2
			}
			name := shape.name + ", " + string(jitter)
			seed := uint64(i+1) * 0x0123456789abcdef
			list = append(list, delayVector{Name: name, Policy: r, Seed: seed, Delays: make([]number, 16)})
			if jitter != policy.JitterDecorrelated {
				list = append(list, delayVector{Name: name + ", a million", Policy: r, Seed: seed, From: 1_000_000, Delays: make([]number, 2)})
			}
		}
	}
	return append(list,
		delayVector{Name: "decorrelated, a thousand", Seed: 99, From: 1000, Delays: make([]number, 3),
			Policy: policy.Retry{InitialBackoff: 10 * ms, MaxBackoff: 20 * sec, Jitter: policy.JitterDecorrelated}},
		delayVector{Name: "slow growth without a cap, a million", Seed: 99, From: 1_000_000, Delays: make([]number, 1),
			Policy: policy.Retry{InitialBackoff: sec, BackoffMultiplier: 1.0000001, Jitter: policy.JitterNone}},
		delayVector{Name: "the whole range of proportional jitter", Seed: 3, Delays: make([]number, 8),
			Policy: policy.Retry{InitialBackoff: 100 * ms, BackoffMultiplier: 2, MaxBackoff: sec, Jitter: policy.JitterProportional, JitterFactor: 1}},
	)
}

func judgeInputs() []judgeVector {
	dns := []classify.Match{{Class: policy.ClassDNS}}
	custom := []classify.Match{{Class: "flaky_peer", Parent: policy.ClassNetwork}}
	unavailable := outcomeVector{Kind: classify.Retryable, Category: classify.CategorySystem, Class: "http_503", Reason: policy.ReasonHTTPStatus, Pushback: int64(sec)}
	notFound := outcomeVector{Kind: classify.NonRetryable, Category: classify.CategoryBusiness, Class: "http_404", Reason: policy.ReasonHTTPStatus}
	fine := outcomeVector{Kind: classify.Success, Reason: policy.ReasonSuccess}
	on := func(classes ...policy.Class) policy.Retry { return policy.Retry{RetryOn: classes} }
	abort := func(classes ...policy.Class) policy.Retry { return policy.Retry{AbortOn: classes} }
	return []judgeVector{
		{Name: "success", Facts: factsVector{}},
		{Name: "success after the end", Facts: factsVector{Ended: policy.ReasonCanceled}},
		{Name: "success by the classifier", Facts: factsVector{Classified: &fine, Ended: policy.ReasonCanceled}},
		{Name: "error that the classifier forgives", Facts: factsVector{Failed: true, Classified: &fine}},
		{Name: "canceled", Facts: factsVector{Failed: true, Ended: policy.ReasonCanceled, Mark: "permanent"}},
		{Name: "deadline", Facts: factsVector{Failed: true, Ended: policy.ReasonDeadlineExceeded}},
		{Name: "overall timeout", Facts: factsVector{Failed: true, Ended: policy.ReasonOverallTimeout, TimedOut: true}},
		{Name: "permanent", Policy: on("dns"), Facts: factsVector{Failed: true, Mark: "permanent", Classes: dns}},
		{Name: "business", Facts: factsVector{Failed: true, Mark: "business"}},
		{Name: "after", Policy: abort("dns"), Facts: factsVector{Failed: true, Mark: "after", Pushback: int64(sec), Classes: dns}},
		{Name: "after a timeout, not narrowed", Policy: on("sql"), Facts: factsVector{Failed: true, Mark: "after", TimedOut: true}},
		{Name: "abort_on", Policy: abort("sql", "network"), Facts: factsVector{Failed: true, Classes: dns}},
		{Name: "abort_on before the classifier", Policy: abort("http_5xx"), Facts: factsVector{Classified: &unavailable}},
		{Name: "classifier retries", Facts: factsVector{Failed: true, Classified: &unavailable}},
		{Name: "classifier refuses", Policy: on("http_4xx"), Facts: factsVector{Classified: &notFound}},
		{Name: "default", Facts: factsVector{Failed: true}},
		{Name: "default after a timeout", Facts: factsVector{Failed: true, TimedOut: true}},
		{Name: "retry_on lists a parent", Policy: on("network"), Facts: factsVector{Failed: true, Classes: dns}},
		{Name: "retry_on lists a custom parent", Policy: on("network"), Facts: factsVector{Failed: true, Classes: custom}},
		{Name: "retry_on keeps the classifier's class", Policy: on("http_5xx"), Facts: factsVector{Classified: &unavailable}},
		{Name: "retry_on lists something else", Policy: on("sql"), Facts: factsVector{Failed: true, Classes: dns}},
		{Name: "retry_on drops the pushback", Policy: on("sql"), Facts: factsVector{Failed: true, Classified: &unavailable}},
	}
}

func failure(pushback time.Duration) outcomeVector {
	return outcomeVector{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError, Pushback: int64(pushback)}
}

func groupInputs() []groupVector {
	refusal := outcomeVector{Kind: classify.NonRetryable, Category: classify.CategoryBusiness, Reason: policy.ReasonBusiness}
	aborted := outcomeVector{Kind: classify.Abort, Category: classify.CategorySystem, Reason: policy.ReasonAborted}
	fine := outcomeVector{Kind: classify.Success, Reason: policy.ReasonSuccess}
	launch := func(n int) groupEvent { return groupEvent{Launch: n} }
	end := func(n int, o outcomeVector) groupEvent { return groupEvent{Launch: n, Outcome: &o} }
	return []groupVector{
		{Name: "primary wins", Events: []groupEvent{launch(1), launch(2), end(1, fine)}},
		{Name: "hedge wins after a failure", Events: []groupEvent{launch(3), launch(4), end(3, failure(sec)), end(4, fine)}},
		{Name: "longest pushback", Events: []groupEvent{launch(1), launch(2), launch(3), end(2, failure(sec)), end(1, failure(3*sec)), end(3, failure(2*sec))}},
		{Name: "success beats a refusal", Events: []groupEvent{launch(1), launch(2), end(1, refusal), end(2, fine)}},
		{Name: "refusal beats abort and failure", Events: []groupEvent{launch(1), launch(2), launch(3), end(2, aborted), end(1, failure(sec)), end(3, refusal)}},
		{Name: "abort beats failure", Events: []groupEvent{launch(1), launch(2), end(1, failure(0)), end(2, aborted)}},
		{Name: "first refusal ends it", CancelOnFirstTerminal: true, Events: []groupEvent{launch(1), launch(2), end(2, refusal), end(1, fine)}},
		{Name: "first abort ends it", CancelOnFirstTerminal: true, Events: []groupEvent{launch(1), launch(2), end(1, aborted)}},
		{Name: "failures do not end it", CancelOnFirstTerminal: true, Events: []groupEvent{launch(1), launch(2), end(1, failure(0)), launch(3), end(2, failure(0)), end(3, failure(0))}},
	}
}

// normal returns a policy as runners of the surface get it.
func normal(t *testing.T, surface policy.Surface, r policy.Retry) policy.Retry {
	t.Helper()
	p, err := policy.Policy{Retry: r}.Normalize(policy.LimitsFor(surface))
	if err != nil {
		t.Fatal(err)
	}
	return p.Retry
}

func sequenceInputs(t *testing.T) []sequenceVector {
	fine := outcomeVector{Kind: classify.Success, Reason: policy.ReasonSuccess}
	refusal := outcomeVector{Kind: classify.NonRetryable, Category: classify.CategorySystem, Reason: policy.ReasonPermanent}
	gone := func(reason policy.Reason) outcomeVector {
		return outcomeVector{Kind: classify.Abort, Category: classify.CategorySystem, Reason: reason}
	}
	of := func(outcomes ...outcomeVector) []attemptVector {
		list := make([]attemptVector, len(outcomes))
		for i, o := range outcomes {
			list[i].Outcome = o
		}
		return list
	}
	left := func(list []attemptVector, reason policy.Reason, spans ...time.Duration) []attemptVector {
		for i, span := range spans {
			list[i].Left, list[i].LeftReason = int64(span), reason
		}
		return list
	}
	fails := func(n int) []attemptVector {
		list := make([]attemptVector, n)
		for i := range list {
			list[i].Outcome = failure(0)
		}
		return list
	}
	call := normal(t, policy.SurfaceCall, policy.Retry{MaxAttempts: 5})
	job := normal(t, policy.SurfaceJob, policy.Retry{MaxAttempts: 6})
	step := normal(t, policy.SurfaceStep, policy.Retry{MaxAttempts: 4, InitialBackoff: sec})
	endless := normal(t, policy.SurfaceStep, policy.Retry{MaxAttempts: 1000, InitialBackoff: 30 * 24 * time.Hour, BackoffMultiplier: 10})
	plain := normal(t, policy.SurfaceCall, policy.Retry{MaxAttempts: 4, InitialBackoff: 100 * ms, MaxBackoff: sec, Jitter: policy.JitterNone})
	list := []sequenceVector{
		{Name: "first attempt succeeds", Policy: call, Surface: "call", Attempts: of(fine)},
		{Name: "success at last", Policy: call, Surface: "call", Attempts: of(failure(0), failure(0), fine)},
		{Name: "attempts exhausted", Policy: call, Surface: "call", Attempts: fails(5)},
		{Name: "a lower maximum", Policy: call, Surface: "call", MaxAttempts: 2, Attempts: fails(2)},
		{Name: "non-retryable", Policy: call, Surface: "call", Attempts: of(failure(0), refusal)},
		{Name: "canceled", Policy: call, Surface: "call", Attempts: of(failure(0), gone(policy.ReasonCanceled))},
		{Name: "aborted by the classifier", Policy: call, Surface: "call", Attempts: of(gone(policy.ReasonHTTPStatus))},
		{Name: "pushback longer than the delay", Policy: call, Surface: "call", Attempts: of(failure(2*sec), failure(time.Minute), fine)},
		{Name: "pushback shorter than the delay", Policy: plain, Surface: "call", Attempts: of(failure(ms), failure(ms), fine)},
		{Name: "pushback too long", Policy: call, Surface: "call", Attempts: of(failure(time.Minute + 1))},
		{Name: "pushback of a job", Policy: job, Surface: "job", Attempts: of(failure(time.Hour), failure(8*24*time.Hour), fine)},
		{Name: "no time for another attempt", Policy: plain, Surface: "call", Attempts: left(fails(2), policy.ReasonOverallTimeout, 101*ms, 200*ms)},
		{Name: "deadline before the pushback", Policy: plain, Surface: "call", Attempts: left(of(failure(5*sec)), policy.ReasonDeadlineExceeded, 5*sec)},
		{Name: "job", Policy: job, Surface: "job", Attempts: fails(6)},
		{Name: "step without jitter", Policy: step, Surface: "step", Step: "process", Attempts: fails(4)},
		{Name: "saturated and unbounded", Policy: endless, Surface: "step", Step: "fetch", Attempts: fails(6)},
	}
	for _, jitter := range jitters {
		r := normal(t, policy.SurfaceJob, policy.Retry{MaxAttempts: 10, InitialBackoff: 500 * ms, BackoffMultiplier: 1.5, MaxBackoff: 10 * sec, Jitter: jitter})
		list = append(list, sequenceVector{Name: "ten attempts, " + string(jitter), Policy: r, Surface: "job", Attempts: fails(10)})
	}
	for i := range list {
		list[i].WorkID = "work-" + strconv.Itoa(i+1)
	}
	return list
}
