package prom_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	prom "github.com/tenetdev/tenet/adapter/prometheus"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

var (
	start   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	getUser = policy.Key{Namespace: "user-service", Name: "GetUser"}
)

var _ observe.Observer = (*prom.Observer)(nil)

func event(key policy.Key, typ observe.EventType) *observe.Event {
	return &observe.Event{Type: typ, Time: start, Work: observe.Work{Key: key, Surface: policy.SurfaceCall}}
}

func attempt(key policy.Key, a observe.AttemptRecord) *observe.Event {
	e := event(key, observe.AttemptEnded)
	e.Attempt = &a
	return e
}

func call(key policy.Key, took time.Duration, reason policy.Reason) *observe.Event {
	e := event(key, observe.CallEnded)
	e.Timeline = &observe.Timeline{Start: start, End: start.Add(took), Reason: reason}
	return e
}

func decided(v decision.Verdict) *observe.Event {
	e := event(getUser, observe.Decided)
	e.Decision = &observe.Decision{Verdict: v}
	if v.Action == decision.Retry {
		e.Decision.Shadow = &observe.ShadowDecision{Verdict: decision.Verdict{Action: decision.Stop, Reason: policy.ReasonAttemptsExhausted}}
	}
	return e
}

func outcome(k classify.Kind, r policy.Reason) classify.Outcome {
	return classify.Outcome{Kind: k, Reason: r}
}

// story is a call whose first attempt fails and whose retry is hedged and succeeds, a second hedge that is denied, and every
// other event.
func story() []*observe.Event {
	circuit := event(getUser, observe.CircuitChanged)
	circuit.Circuit = &observe.CircuitChange{From: "closed", To: "open"}
	ajar := event(getUser, observe.CircuitChanged)
	ajar.Circuit = &observe.CircuitChange{From: "open", To: "ajar"}
	report := event(getUser, observe.Reported)
	report.Report = &observe.Report{Reason: policy.ReasonAttemptOverrun}
	moved := event(getUser, observe.LimitChanged)
	moved.Limit = &observe.LimitChange{From: 20, To: 24}
	first := outcome(classify.Retryable, policy.ReasonHTTPStatus)
	first.Attributes = map[string]string{observe.AttrLimitWait: "30ms"}
	return []*observe.Event{
		event(getUser, observe.CallStarted),
		attempt(getUser, observe.AttemptRecord{Attempt: 1, Outcome: first}),
		decided(decision.Verdict{Action: decision.Retry, Delay: 20 * time.Millisecond, Reason: policy.ReasonRetry}),
		attempt(getUser, observe.AttemptRecord{
			Attempt: 4, RetryIndex: 1, HedgeIndex: 2, Denied: true, Outcome: outcome(classify.Abort, policy.ReasonMaxExtraLoad),
		}),
		attempt(getUser, observe.AttemptRecord{
			Attempt: 3, RetryIndex: 1, HedgeIndex: 1, Outcome: outcome(classify.Abort, policy.ReasonCanceledInternal),
		}),
		attempt(getUser, observe.AttemptRecord{Attempt: 2, RetryIndex: 1, Outcome: outcome(classify.Success, policy.ReasonSuccess)}),
		decided(decision.Verdict{Action: decision.Done, Reason: policy.ReasonSuccess}),
		call(getUser, 1500*time.Millisecond, policy.ReasonSuccess),
		circuit, ajar, moved, report,
	}
}

func observer(t *testing.T, maxKeys int) (*prom.Observer, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	o, err := prom.New(prom.Options{Registerer: registry, MaxKeys: maxKeys})
	if err != nil {
		t.Fatal(err)
	}
	return o, registry
}

// samples lists the registry's series, one text for each.
func samples(t *testing.T, g prometheus.Gatherer) []string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			value := fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = fmt.Sprintf("%d in %gs", h.GetSampleCount(), h.GetSampleSum())
			}
			list = append(list, fmt.Sprintf("%s{%s} %s", f.GetName(), strings.Join(labels, ","), value))
		}
	}
	return list
}

func TestEventsBecomeMetrics(t *testing.T) {
	o, registry := observer(t, 0)
	for _, e := range story() {
		o.Observe(t.Context(), e)
	}
	want := []string{
		`tenet_attempts_total{key="user-service.GetUser",outcome="abort",reason="canceled_internal"} 1`,
		`tenet_attempts_total{key="user-service.GetUser",outcome="retryable",reason="http_status"} 1`,
		`tenet_attempts_total{key="user-service.GetUser",outcome="success",reason="success"} 1`,
		`tenet_call_duration_seconds{key="user-service.GetUser"} 1 in 1.5s`,
		`tenet_calls_total{key="user-service.GetUser",reason="success",surface="call"} 1`,
		`tenet_circuit_state{key="user-service.GetUser"} 2`,
		`tenet_denied_total{key="user-service.GetUser",reason="max_extra_load"} 1`,
		`tenet_hedges_total{key="user-service.GetUser"} 1`,
		`tenet_limit_concurrency{key="user-service.GetUser"} 24`,
		`tenet_limit_wait_seconds{key="user-service.GetUser"} 1 in 0.03s`,
		`tenet_reports_total{reason="attempt_overrun"} 1`,
		`tenet_retries_total{key="user-service.GetUser"} 1`,
		`tenet_retry_delay_seconds{key="user-service.GetUser"} 1 in 0.02s`,
		`tenet_shadow_divergences_total{key="user-service.GetUser",reason="retry",shadow_reason="attempts_exhausted"} 1`,
	}
	if diff := cmp.Diff(want, samples(t, registry)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestP2LabelsAreBounded(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))

	o, registry := observer(t, 2)
	for i := range 50 {
		key := policy.Key{Name: fmt.Sprintf("user-%02d", i)}
		odd := call(key, -time.Second, policy.Reason(fmt.Sprint("row ", i)))
		odd.Work.Surface = policy.Surface(fmt.Sprint("surface ", i))
		o.Observe(t.Context(), odd)
		o.Observe(t.Context(), attempt(key, observe.AttemptRecord{Outcome: outcome(classify.Kind(100+i), policy.Reason(fmt.Sprint(i)))}))
		changed := event(key, observe.CircuitChanged)
		changed.Circuit = &observe.CircuitChange{From: "open", To: "half_open"}
		o.Observe(t.Context(), changed)
	}
	got := samples(t, registry)
	for _, want := range []string{
		`tenet_calls_total{key="other",reason="other",surface="other"} 48`,
		`tenet_calls_total{key="user-01",reason="other",surface="other"} 1`,
		`tenet_attempts_total{key="other",outcome="other",reason="other"} 48`,
		`tenet_call_duration_seconds{key="other"} 48 in 0s`,
		`tenet_circuit_state{key="other"} 1`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("missing %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if len(got) != 7*3 {
		t.Errorf("%d series, want 7 for each of two keys and other:\n%s", len(got), strings.Join(got, "\n"))
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.String())
	}
}

func TestR13AnyKeyIsAcceptable(t *testing.T) {
	o, registry := observer(t, 0)
	o.Observe(t.Context(), call(policy.Key{Name: "caf\xe9"}, time.Second, policy.ReasonSuccess))
	if got := samples(t, registry); !slices.Contains(got, `tenet_calls_total{key="caf�",reason="success",surface="call"} 1`) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestSecondRegistrationIsAnError(t *testing.T) {
	_, registry := observer(t, 0)
	o, err := prom.New(prom.Options{Registerer: registry})
	if _, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); !ok || o != nil {
		t.Errorf("got %v, %v", o, err)
	}
}

func TestDefaultRegisterer(t *testing.T) {
	before := prometheus.DefaultRegisterer
	t.Cleanup(func() { prometheus.DefaultRegisterer = before })
	registry := prometheus.NewRegistry()
	prometheus.DefaultRegisterer = registry
	o, err := prom.New(prom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Observe(t.Context(), call(getUser, time.Second, policy.ReasonSuccess))
	if len(samples(t, registry)) == 0 {
		t.Error("nothing at the default registerer")
	}
}

func TestConcurrentEventsAreAllCounted(t *testing.T) {
	o, registry := observer(t, 0)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 500 {
				for _, e := range story() {
					o.Observe(t.Context(), e)
				}
			}
		})
	}
	group.Wait()
	want := `tenet_calls_total{key="user-service.GetUser",reason="success",surface="call"} 4000`
	if got := samples(t, registry); !slices.Contains(got, want) {
		t.Errorf("missing %s in\n%s", want, strings.Join(got, "\n"))
	}
}

// BenchmarkObserve measures the events of every successful call: an attempt and the end of the call.
func BenchmarkObserve(b *testing.B) {
	o, err := prom.New(prom.Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		b.Fatal(err)
	}
	won, ended := attempt(getUser, observe.AttemptRecord{Attempt: 1}), call(getUser, time.Millisecond, policy.ReasonSuccess)
	won.Attempt.Outcome.Reason = policy.ReasonSuccess
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			o.Observe(b.Context(), won)
			o.Observe(b.Context(), ended)
		}
	})
}
