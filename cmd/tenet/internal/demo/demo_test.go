package demo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// isolated is a policy under which calls share no state, so that the decisions of each depend only on the seed.
const isolated = `
version: 1
defaults:
  calls: {retry: {max_attempts: 5, timeout: 1.5s, backoff: 1ms, backoff_cap: 20ms, classifier: http, max_pushback: 100ms}}
`

func compiled(t *testing.T, document string) *policy.Set {
	t.Helper()
	d, err := policyfile.Parse("demo.yaml", []byte(document), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Warnings) > 0 {
		t.Errorf("warnings: %v", d.Warnings)
	}
	return d.Set
}

func embedded(t *testing.T) []Delivery {
	t.Helper()
	list, err := Deliveries()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func run(t *testing.T, o Options) Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheDemoMeetsItsBounds(t *testing.T) {
	r := run(t, Options{Seed: 1, Deliveries: embedded(t), Concurrency: 16, Set: compiled(t, Policy())})
	if !r.Good() || r.Deliveries != 1000 || r.Delivered+r.Failed != 1000 {
		t.Errorf("delivered %d, failed %d, unexplained %v, bound %+v", r.Delivered, r.Failed, r.Unexplained, r.Bound)
	}
	if r.Delivered < 900 {
		t.Errorf("only %d of 1000 were delivered", r.Delivered)
	}
	for _, f := range []Fault{ServerError, Unavailable, Throttled, Closed, Rejected, Broken, Hang, Slow, SlowBody, Reset} {
		if r.Faults[f] == 0 {
			t.Errorf("fault %s never happened", f)
		}
	}
	if r.Retries == 0 || r.HedgeWins == 0 || r.Denied == 0 || r.FailedByReason[policy.ReasonCircuitOpen] == 0 {
		t.Errorf("retries %d, hedge wins %d, denied %d, failed %v: a mechanism did nothing", r.Retries, r.HedgeWins, r.Denied, r.FailedByReason)
	}
	if r.Requests <= 1000 || r.Requests > r.Attempts {
		t.Errorf("the endpoint counted %d requests of %d attempts", r.Requests, r.Attempts)
	}
	if r.Bound == nil || r.Bound.Max != 1.22 {
		t.Errorf("bound %+v, want 1.22", r.Bound)
	}
	if len(r.Timelines) != 3 {
		t.Errorf("%d timelines", len(r.Timelines))
	}
}

func TestTheSameSeedMeansTheSameDecisions(t *testing.T) {
	o := Options{Seed: 11, Deliveries: embedded(t)[:150], Concurrency: 12, Set: compiled(t, isolated)}
	first := run(t, o)
	o.Concurrency = 5 // the digest does not depend on the order of deliveries
	second := run(t, o)
	if diff := cmp.Diff(first.Decisions, second.Decisions); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	if first.Digest != second.Digest || first.Requests != second.Requests {
		t.Errorf("digests %s and %s, requests %d and %d", first.Digest, second.Digest, first.Requests, second.Requests)
	}
	if first.Retries == 0 {
		t.Error("nothing was retried")
	}
	if first.Bound != nil {
		t.Errorf("a bound without a retry ratio: %+v", first.Bound)
	}
	o.Seed = 12
	if third := run(t, o); third.Digest == first.Digest {
		t.Error("another seed gave the same decisions")
	}
}

func TestAnEndedContextEndsTheDemo(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	o := Options{Seed: 1, Deliveries: embedded(t), Concurrency: 4, Set: compiled(t, isolated)}
	finished := 0
	o.Progress = func(done, total int) {
		finished = done
		if done == 20 {
			cancel(cause)
		}
	}
	if _, err := Run(ctx, o); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	if finished > 60 {
		t.Errorf("%d deliveries finished after the context ended", finished)
	}
}

func TestTheScheduleIsAPureFunctionOfSeedDeliveryAndRequest(t *testing.T) {
	s := Schedule{Seed: 1}
	for n := range 100 {
		if again := (Schedule{Seed: 1}); s.Fault("orders", "a", n) != again.Fault("orders", "a", n) || s.Latency("a", n) != again.Latency("a", n) {
			t.Errorf("two answers for request %d", n)
		}
	}
	counts := map[Fault]int{}
	const n = 20_000
	for i := range n {
		counts[s.Fault("orders", "delivery", i+1)]++
	}
	for _, want := range requests {
		if got := float64(counts[want.fault]) / n; got < want.part*0.8 || got > want.part*1.2 {
			t.Errorf("%s: share %.4f, want about %.4f", want.fault, got, want.part)
		}
	}
	for i := range 200 {
		if d := s.Latency("a", i); d < time.Millisecond || d > 12*time.Millisecond {
			t.Errorf("latency %v", d)
		}
	}
}

func TestAFaultAffectsAllRequestsOfADelivery(t *testing.T) {
	s, struck := Schedule{Seed: 3}, 0
	for _, d := range embedded(t) {
		first := s.Fault(d.Queue, d.ID, 1)
		if first != Rejected && first != Broken && first != Closed {
			continue
		}
		struck++
		for n := 2; n < 6; n++ {
			if got := s.Fault(d.Queue, d.ID, n); got != first {
				t.Errorf("%s: request %d gets %s, the first got %s", d.ID, n, got, first)
			}
		}
	}
	if struck == 0 {
		t.Error("no delivery was affected")
	}
}

// account makes a report of invented results.
func account(o Options, counts Counts, reasons ...policy.Reason) Report {
	var results []result
	for i, reason := range reasons {
		results = append(results, result{delivery: o.Deliveries[i], reason: reason, timeline: observe.Timeline{Reason: reason}})
	}
	return newReport(o, results, counts, time.Second)
}

func TestADeliveryThatTheEndpointDoesNotKnowIsUnexplained(t *testing.T) {
	o := Options{Deliveries: embedded(t)[:3], Set: compiled(t, isolated)}
	accepted := map[string]int{o.Deliveries[0].ID: 1}
	r := account(o, Counts{Requests: 3, Accepted: accepted}, policy.ReasonSuccess, policy.ReasonSuccess, "")
	if diff := cmp.Diff([]string{o.Deliveries[1].ID, o.Deliveries[2].ID}, r.Unexplained); diff != "" || r.Good() {
		t.Errorf("(-want +got):\n%s", diff)
	}
	accepted[o.Deliveries[1].ID] = 2
	r = account(o, Counts{Requests: 3, Accepted: accepted}, policy.ReasonSuccess, policy.ReasonSuccess, policy.ReasonCircuitOpen)
	if !r.Good() || r.Delivered != 2 || r.Failed != 1 || r.Duplicates != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestTooManyRequestsBreakTheBound(t *testing.T) {
	o := Options{Deliveries: embedded(t)[:10], Set: compiled(t, Policy())}
	for requests, kept := range map[int]bool{32: true, 33: false} { // 10 · 1.2 + 20
		reasons := make([]policy.Reason, 10)
		accepted := map[string]int{}
		for i := range reasons {
			reasons[i] = policy.ReasonSuccess
			accepted[o.Deliveries[i].ID] = 1
		}
		if r := account(o, Counts{Requests: requests, Accepted: accepted}, reasons...); r.Good() != kept {
			t.Errorf("%d requests: good is %v with %+v", requests, r.Good(), r.Bound)
		}
	}
}

func TestLatencyUsesTheNearestRank(t *testing.T) {
	var list []time.Duration
	for i := 100; i > 0; i-- {
		list = append(list, time.Duration(i)*time.Second)
	}
	if diff := cmp.Diff(Latency{P50: 50, P95: 95, P99: 99, Max: 100}, latencyOf(list)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if latencyOf(nil) != (Latency{}) {
		t.Error("latency of nothing")
	}
}

func TestDeliveriesAreParsed(t *testing.T) {
	const good = `{"type":"http","queue":"q","unique_key":"k","payload":{"url":"http://demo.invalid/x","body":"b","expect_status":204}}`
	list, err := parseDeliveries(good + "\n\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Delivery{{ID: "k", Queue: "q", Method: "POST", URL: "http://demo.invalid/x", Body: "b", ExpectStatus: 204}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, lines := range map[string]string{
		"line 2: unique_key": good + "\n" + good,
		"line 1: type":       strings.Replace(good, `"http"`, `"exec"`, 1),
		"unique_key: miss":   strings.Replace(good, `"k"`, `""`, 1),
		"queue: miss":        strings.Replace(good, `"q"`, `""`, 1),
		"payload.url":        strings.Replace(good, `http://demo.invalid/x`, `file:///x`, 1),
		"line 1: ":           "{",
	} {
		if _, err := parseDeliveries(lines); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}

func TestTheEmbeddedDeliveriesAreVaried(t *testing.T) {
	queues, methods, statuses := map[string]int{}, map[string]int{}, map[int]int{}
	for _, d := range embedded(t) {
		queues[d.Queue]++
		methods[d.Method]++
		statuses[d.ExpectStatus]++
		if !strings.HasPrefix(d.URL, "http://demo.invalid/hooks/"+d.Queue) || d.Body == "" {
			t.Errorf("%s: %s with %d bytes", d.ID, d.URL, len(d.Body))
		}
	}
	if len(queues) != 10 || len(methods) != 4 || len(statuses) != 4 {
		t.Errorf("queues %v, methods %v, statuses %v", queues, methods, statuses)
	}
	if len(deliveries) > 400_000 {
		t.Errorf("%d bytes", len(deliveries))
	}
}
