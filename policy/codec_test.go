package policy

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/internal/fields"
)

// filled returns a T whose documented fields are all present, so that a forgotten one shows in a round trip.
func filled[T any](t *testing.T) T {
	t.Helper()
	var value T
	fill := func(v reflect.Value, inner func(reflect.Value)) {
		for _, f := range fields.Of(v.Type()) {
			field := v.Field(f.Index)
			switch {
			case fields.IsDuration(f.Type):
				field.SetInt(int64(1500*time.Millisecond) + int64(f.Index))
			case f.Type.Kind() == reflect.Struct:
				inner(field)
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
				field.SetFloat(0.25 + float64(f.Index))
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

func TestP6UnknownOrWrongJSONIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"retry": {"max_attemps": 3}}`:             "retry.max_attemps: unknown field",
		`{"retries": {}}`:                           "retries: unknown field",
		`{"retry": {"max_attempts": "3"}}`:          "retry.max_attempts",
		`{"retry": {"backoff": "soon"}}`:            "retry.backoff: \"soon\" is not a duration",
		`{"retry": {"backoff": [1]}}`:               "neither seconds nor a duration",
		`{"retry": {"backoff": 1e300}}`:             "out of range",
		`{"retry": 3}`:                              "retry",
		`[]`:                                        "policy:",
		`{"retry": {"budget": {"name": {"x": 1}}}}`: "retry.budget.name",
	} {
		var p Policy
		if err := json.Unmarshal([]byte(text), &p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
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
