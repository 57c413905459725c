package policy

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/internal/fields"
)

// filled returns a T with all documented fields set, so that a round trip shows a forgotten field.
func filled[T any](t *testing.T) T {
	t.Helper()
	var value T
	fill := func(v reflect.Value, inner func(reflect.Value)) {
		for _, f := range fields.Of(v.Type()) {
			field := v.Field(f.Index)
			enum, isEnum := field.Interface().(interface{ Values() []string })
			switch {
			case f.Rule.Reserved:
			case isEnum:
				field.SetString(enum.Values()[0])
			case fields.IsDuration(f.Type):
				field.SetInt(int64(1500*time.Millisecond) + int64(f.Index))
			case f.Type.Kind() == reflect.Struct:
				inner(field)
			case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
				field.Set(reflect.MakeSlice(f.Type, 2, 2))
				inner(field.Index(0))
				inner(field.Index(1))
			case f.Type == reflect.TypeFor[[]string]():
				field.Set(reflect.ValueOf([]string{"meta.a", "queue"}))
			case f.Type.Kind() == reflect.Slice:
				field.Set(reflect.ValueOf([]Class{ClassTLS, "own"}))
			case f.Type.Kind() == reflect.Map:
				field.Set(reflect.ValueOf(map[string]any{"a": 1.0, "b": []any{nil, "c"}}))
			case f.Type.Kind() == reflect.String:
				field.SetString("text" + f.Name)
			case f.Type.Kind() == reflect.Bool:
				field.SetBool(true)
			case f.Type.Kind() == reflect.Int:
				field.SetInt(int64(f.Index) + 7)
			case f.Type.Kind() == reflect.Float64:
				field.SetFloat(max(min(0.25, f.Rule.Max), f.Rule.Min))
			default:
				t.Fatalf("field %s has kind %s", f.Name, f.Type.Kind())
			}
		}
	}
	var deep func(reflect.Value)
	deep = func(v reflect.Value) { fill(v, deep) }
	deep(reflect.ValueOf(&value).Elem())
	return value
}

func roundTrip[T any](t *testing.T) {
	t.Helper()
	full := filled[T](t)
	for _, in := range []T{full, *new(T)} {
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var out T
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(in, out, cmp.AllowUnexported(Meta{}, Consumer{}, Producer{})); diff != "" {
			t.Errorf("%T: %s", in, diff)
		}
	}
	if empty, _ := json.Marshal(*new(T)); string(empty) != "{}" {
		t.Errorf("%T is written as %s", full, empty)
	}
}

func TestP1JSONRoundTrips(t *testing.T) {
	roundTrip[Policy](t)
	roundTrip[Retry](t)
	roundTrip[Hedge](t)
	roundTrip[Circuit](t)
	roundTrip[Budget](t)
	roundTrip[Job](t)
	roundTrip[Queue](t)
	roundTrip[Consumer](t)
	roundTrip[Producer](t)
}

func TestP1DurationsAreSecondsInJSON(t *testing.T) {
	text, err := json.Marshal(Retry{InitialBackoff: 250 * time.Millisecond, TimeoutPerAttempt: 2 * time.Second})
	if err != nil || string(text) != `{"backoff":0.25,"timeout":2}` {
		t.Errorf("%s, %v", text, err)
	}
	var r Retry
	if err := json.Unmarshal([]byte(`{"backoff": "250ms", "timeout": 2.0, "overall_timeout": null, "retry_on": null}`), &r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Retry{InitialBackoff: 250 * time.Millisecond, TimeoutPerAttempt: 2 * time.Second}, r); diff != "" {
		t.Error(diff)
	}
	if text, err = json.Marshal(CallLimits()); err != nil || !strings.Contains(string(text), `"backoff":{"default":0.01,"max":60,"min":0.001}`) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := json.Marshal(Retry{JitterFactor: math.NaN()}); err == nil {
		t.Error("NaN was written")
	}
}

func TestP6UnknownOrWrongJSONIsRejected(t *testing.T) {
	for text, want := range map[string]string{
		`{"retry": {"max_attemps": 3}}`:                     "retry.max_attemps: unknown field",
		`{"retries": {}}`:                                   "retries: unknown field",
		`{"retry": {"max_attempts": "3"}}`:                  "retry.max_attempts",
		`{"retry": {"backoff": "soon"}}`:                    "retry.backoff: \"soon\" is neither seconds nor a duration",
		`{"retry": {"backoff": [1]}}`:                       "neither seconds nor a duration",
		`{"retry": {"backoff": 1e300}}`:                     "out of range",
		`{"retry": {}, "retry": {}}`:                        "retry: given twice",
		`{"retry": {"budget": {"name": "a", "name": "b"}}}`: "retry.budget.name: given twice",
		`{"retry": null}`:                                   "retry: null is not accepted",
		`{"retry": {"max_attempts": null}}`:                 "retry.max_attempts: null is not accepted",
		`{"retry": {"max_attempts": 0}}`:                    "retry.max_attempts: 0 must be at least 1",
		`{"retry": {"max_attempts": 2.5}}`:                  "retry.max_attempts: 2.5 is not an integer",
		`{"retry": {"backoff": -1}}`:                        "retry.backoff: -1 must be at least 0",
		`{"retry": {"timeout": 0}}`:                         "retry.timeout: 0 must be greater than 0; write null for none",
		`{"retry": {"jitter": "wild"}}`:                     `retry.jitter: unknown value "wild"; write one of none, full`,
		`{"retry": {"retry_on": [""]}}`:                     "retry.retry_on: an empty name",
		`{"retry": {"backoff_multiplier": 0.5}}`:            "retry.backoff_multiplier: 0.5 must be at least 1",
		`{"retry": 3}`:                                      "retry",
		`[]`:                                                "policy:",
		`{"retry": {"budget": {"name": {"x": 1}}}}`:         "retry.budget.name",
	} {
		var p Policy
		if err := json.Unmarshal([]byte(text), &p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestP6JSONOfPipelinesIsReadLikeDocuments(t *testing.T) {
	for text, want := range map[string]string{
		`{"loop": {"limit": 0}}`:                                     "loop.limit: 0 must be greater than 0",
		`{"loop": {"batch": {"size": 0}}}`:                           "loop.batch.size: 0 must be at least 1",
		`{"loop": {"empty_queue": {"interval": 0}}}`:                 "loop.empty_queue.interval: reserved",
		`{"steps": {"process": {"retry": {"max_attempts": 0}}}}`:     "steps.process.retry.max_attempts: 0 must be at least 1",
		`{"steps": {"fetch": {"extra": {"a": [{"b": 1, "b": 2}]}}}}`: "steps.fetch.extra.a.b: given twice",
		`{"steps": {"fetch": {"extra": 1}}}`:                         "steps.fetch.extra",
	} {
		var c Consumer
		if err := json.Unmarshal([]byte(text), &c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	var p Producer
	if err := json.Unmarshal([]byte(`{"loop": {"timeout": 0}}`), &p); err == nil {
		t.Error("a producer's timeout of 0 was accepted")
	}
	var c Consumer
	err := json.Unmarshal([]byte(`{"loop": {"limit": 1e12, "timeout": null, "empty_queue": {"backoff": 0, "backoff_cap": 0}}, "steps": {"fetch": {"extra": null}}}`), &c)
	if q := c.Loop.EmptyQueue; err != nil || c.Loop.Limit != math.MaxInt32 || q.Backoff != MinEmptyBackoff || q.BackoffCap != Unbounded {
		t.Errorf("%+v, %v", c.Loop, err)
	}
}

func TestP6ADeprecatedFieldIsReadWithAWarning(t *testing.T) {
	var p Policy
	deprecated := map[string]string{"Retry.retries": "write max_attempts", "Policy.id": "remove it"}
	warnings, err := unmarshal([]byte(`{"id": "r1", "retry": {"retries": {"any": null}, "max_attempts": 2}}`), &p, deprecated)
	if diff := cmp.Diff([]string{"retry.retries: deprecated; write max_attempts", "id: deprecated; remove it"}, warnings); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if p.ID != "r1" || p.Retry.MaxAttempts != 2 {
		t.Errorf("%+v", p)
	}
	if _, err := unmarshal([]byte(`{"retry": {"retries": 3}}`), &p, nil); err == nil {
		t.Error("not deprecated, and accepted")
	}
	if err := p.UnmarshalJSON([]byte(`{"id": }`)); err == nil {
		t.Error("accepted what is not JSON")
	}
	if err := json.Unmarshal([]byte(`null`), &p); err != nil || !p.IsZero() {
		t.Errorf("null: %+v, %v", p, err)
	}
}

func TestP1NormalizedPoliciesRoundTrip(t *testing.T) {
	numbers := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(math.Inf(-1)))
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Category: rapid.SampledFrom([]Category{"", KVGet, "ODD"}).Draw(t, "category"), Retry: anyRetry().Draw(t, "retry"),
			Hedge: Hedge{Enabled: rapid.Bool().Draw(t, "hedged"), MaxHedges: rapid.Int().Draw(t, "hedges"), MaxExtraLoad: numbers.Draw(t, "load")},
			Circuit: Circuit{
				Kind:     rapid.SampledFrom([]CircuitKind{"", CircuitConsecutive, CircuitRate, CircuitSlow}).Draw(t, "circuit"),
				Failures: rapid.Int().Draw(t, "failures"), FailureRate: numbers.Draw(t, "rate"), SlowRate: numbers.Draw(t, "slow"),
				Window: time.Duration(rapid.Int64().Draw(t, "window")), Probes: rapid.Int().Draw(t, "probes"),
			},
		}
		p, err := p.Normalize(LimitsFor(rapid.SampledFrom([]Surface{SurfaceCall, SurfaceJob, SurfaceStep}).Draw(t, "surface")))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var again Policy
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

func TestP1LongestDurationIsReadBack(t *testing.T) {
	want := Policy{Retry: Retry{MaxPushback: math.MaxInt64, OverallTimeout: math.MaxInt64}}
	written, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Policy
	if err := json.Unmarshal(written, &got); err != nil || got.Retry.MaxPushback != math.MaxInt64 || got.Retry.OverallTimeout != math.MaxInt64 {
		t.Errorf("%s was read as %+v, %v", written, got.Retry, err)
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]time.Duration{0: 0, 1.5: 1500 * time.Millisecond, 0.1: 100 * time.Millisecond, -2: -2 * time.Second, 1e-9: 1} {
		if got, err := Seconds(s); got != want || err != nil {
			t.Errorf("%g: %v, %v", s, got, err)
		}
	}
	for _, s := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 9.3e9, -9.3e9} {
		if _, err := Seconds(s); err == nil {
			t.Errorf("%g was accepted", s)
		}
	}
	if d, err := ParseDuration(" 1h30m "); d != 90*time.Minute || err != nil {
		t.Errorf("%v, %v", d, err)
	}
}
