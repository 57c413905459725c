package idempotency_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/idempotency"
)

type m = map[string]any

func keyOf(t *testing.T, p idempotency.Parts) string {
	t.Helper()
	key, err := p.Key()
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	if idempotency.CheckKey(key) != nil || len(key) != 64 {
		t.Fatalf("key %q", key)
	}
	return key
}

// TestI1KeysAreFrozen checks vectors computed independently: sha256sum of the canonical JSON in the comment.
func TestI1KeysAreFrozen(t *testing.T) {
	for want, p := range map[string]idempotency.Parts{
		// {"additional_params":{},"correlation_id":"","operation":"","tenant_id":""}
		"2ceebe56f4ab884702e65c0af89a7e0dcb037dd0e7cd214237c76b4826dcdd48": {},
		// {"additional_params":{"a":[1,2.5,null,"",true,{"b":"€","é":-1}],"z":"<&>"},"correlation_id":"c","operation":"charge","tenant_id":"acme"}
		"317131625570fb01a062861b3180c3b56f5f6af711596770e613f1710dd3a4ea": {
			Operation: "charge", TenantID: "acme", CorrelationID: "c",
			Params: m{"z": "<&>", "a": []any{1, 2.5, nil, "", true, m{"é": -1.0, "b": "€"}}},
		},
	} {
		if got := keyOf(t, p); got != want {
			t.Errorf("key %s, want %s", got, want)
		}
	}
}

func TestI1DifferentPartsHaveDifferentKeys(t *testing.T) {
	seen := map[string]int{}
	for i, p := range []idempotency.Parts{
		{}, {Operation: "a"}, {TenantID: "a"}, {CorrelationID: "a"}, {Params: m{"a": nil}}, {Params: m{"a": ""}}, {Params: m{"a": m{}}}, {Params: m{"a": []any{}}},
		{Params: m{"a": "null"}}, {Params: m{"a": 0}}, {Params: m{"a": "0"}}, {Params: m{"a": false}}, {Params: m{"operation": "a"}}, {Operation: "a", TenantID: "b"},
		{Operation: "ab"}, {Operation: "a|b"}, {Operation: `a","tenant_id":"b`}, {Params: m{"a": m{"b": 1}}}, {Params: m{"a": 1, "b": 1}}, {Params: m{"a.b": 1}},
		{Params: m{"a": []any{1, 2}}}, {Params: m{"a": []any{2, 1}}}, {Params: m{"a": []any{nil}}}, {Params: m{"a": "é"}}, {Params: m{"a": "e\u0301"}},
		{Params: m{"a": m{"b": nil}}}, {Params: m{"a": m{"b": ""}}}, {Params: m{"a": "\uFFFD"}},
	} {
		key := keyOf(t, p)
		if other, twice := seen[key]; twice {
			t.Errorf("parts %d and %d have the same key", other, i)
		}
		seen[key] = i
	}
}

func TestI1OrderAndGoTypesAreIrrelevant(t *testing.T) {
	type inner struct {
		B int    `json:"b"`
		A string `json:"a"`
	}
	type name string
	n := 7
	for _, same := range [][]any{
		{m{"a": "x", "b": 1}, m{"b": 1.0, "a": "x"}, inner{1, "x"}, &inner{1, "x"}, map[string]any{"b": json.Number("1"), "a": name("x")}, json.RawMessage(` {"b":1e0, "a":"x"}`)},
		{7, int8(7), uint64(7), 7.0, float32(7), json.Number("7"), json.Number("7.0"), json.Number("70e-1"), &n, json.RawMessage("7")},
		{nil, (*int)(nil), []int(nil), map[string]any(nil), json.RawMessage("null"), any(nil)},
		{0.1, float32(0.1), json.Number("0.1"), json.Number("1e-1")},
		{[]any{1, "a"}, [2]any{1.0, name("a")}, &[]any{uint8(1), "a"}},
		{map[int]string{1: "a", 2: "b"}, m{"1": "a", "2": "b"}},
		{"AQI=", []byte{1, 2}},
		{time.Unix(0, 0).UTC(), "1970-01-01T00:00:00Z"},
		{"\U0001F600", json.RawMessage(`"\ud83d\ude00"`)},
		{`\ufffd`, json.RawMessage(`"\\ufffd"`)},
		{9007199254740992, int64(1 << 53), json.Number("9007199254740992"), 9007199254740992.0},
		{-9007199254740992, json.Number("-9007199254740992")},
		{0.0, math.Copysign(0, -1), json.Number("-0")},
	} {
		want := keyOf(t, idempotency.Parts{Params: m{"v": m{"w": []any{same[0]}}}})
		for _, v := range same[1:] {
			if got := keyOf(t, idempotency.Parts{Params: m{"v": m{"w": []any{v}}}}); got != want {
				t.Errorf("%#v and %#v have different keys", same[0], v)
			}
		}
	}
}

func TestI1AmbiguousValuesAreRejectedWithTheirPath(t *testing.T) {
	deep := any(1)
	for range 200 {
		deep = []any{deep}
	}
	cycle := m{}
	cycle["self"] = cycle
	type holder struct {
		N uint64 `json:"n"`
		S string `json:"s"`
	}
	for path, v := range map[string]any{
		"params.a":        int64(1<<53 + 1),
		"params.b":        -int64(1<<53 + 1),
		"params.c":        uint64(math.MaxUint64),
		"params.d":        math.NaN(),
		"params.e":        math.Inf(1),
		"params.f":        math.Inf(-1),
		"params.g":        1e300,
		"params.h":        json.Number("9007199254740993"),
		"params.i":        json.Number("9007199254740992.5"),
		"params.j":        json.Number("1e400"),
		"params.k":        json.Number("0x10"),
		"params.l":        json.Number("NaN"),
		"params.m":        json.Number(""),
		"params.n":        json.Number("true"),
		"params.o":        "a\xff",
		"params.p":        make(chan int),
		"params.q":        func() {},
		"params.r":        complex(1, 2),
		"params.s[1]":     []any{1, float32(math.Inf(1))},
		"params.t.u[0].v": m{"u": []any{m{"v": int64(math.MaxInt64)}}},
		"params.w.n":      holder{N: 1 << 60},
		"params.x":        holder{S: "\xff"},
		"params.y":        json.RawMessage(`"\ud800"`),
		"params.z":        json.RawMessage(`"\udc00\ud83d"`),
		"params.aa.b":     json.RawMessage(`{"b":-9007199254740993}`),
		"params.bb":       json.RawMessage(`{`),
		"params.cc":       m{"\xff": 1},
		"params.dd":       map[float64]int{1: 1},
		"params.ee.1":     map[int]int64{1: math.MaxInt64},
		"params.deep":     deep,
		"params.cycle":    cycle,
		"params.ff":       json.Number("-9007199254740992.0000001"),
	} {
		name := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' })[1]
		_, err := idempotency.Parts{Params: m{name: v}}.Key()
		var bad *idempotency.KeyError
		if !errors.As(err, &bad) || bad.Field != path && name != "deep" && name != "cycle" || !strings.HasPrefix(bad.Field, "params."+name) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := idempotency.Fingerprint(v); !errors.As(err, &bad) || !strings.HasPrefix(bad.Field, "request") {
			t.Errorf("fingerprint of %s: %v", path, err)
		}
	}
	for field, p := range map[string]idempotency.Parts{
		"operation": {Operation: "\xff"}, "tenant_id": {TenantID: "\xff"}, "correlation_id": {CorrelationID: "\xff"}, "params": {Params: m{"\xff": 1}},
	} {
		var bad *idempotency.KeyError
		if _, err := p.Key(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestI3FingerprintsOfRequestsAndBytes(t *testing.T) {
	a, err := idempotency.Fingerprint(m{"amount": 5, "to": "x"})
	b, err2 := idempotency.Fingerprint(struct {
		To     string  `json:"to"`
		Amount float64 `json:"amount"`
	}{"x", 5})
	if err != nil || err2 != nil || a != b || len(a) != 64 {
		t.Errorf("%s %v, %s %v", a, err, b, err2)
	}
	seen := map[string]bool{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""}} {
		raw := [][]byte{}
		for _, p := range parts {
			raw = append(raw, []byte(p))
		}
		seen[idempotency.FingerprintBytes(raw...)] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d fingerprints of 7", len(seen))
	}
}

// TestI1RandomParameters checks random nested values: shuffling members keeps the key, and changing a leaf changes it.
func TestI1RandomParameters(t *testing.T) {
	leaf := rapid.OneOf(
		rapid.Just(any(nil)), rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.IntRange(-1<<53, 1<<53), func(i int) any { return i }), rapid.Map(rapid.Float64Range(-1e15, 1e15), func(f float64) any { return f }),
	)
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(
			leaf, rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.String(), value(depth-1), 0, 3), func(o map[string]any) any { return o }),
		)
	}
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.MapOfN(rapid.String(), value(3), 0, 4).Draw(t, "params")
		key, err := idempotency.Parts{Operation: "op", Params: params}.Key()
		if err != nil {
			t.Fatal(err)
		}
		shuffled := m{}
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(params))) {
			shuffled[name] = params[name]
		}
		raw, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		var decoded map[string]any
		if err := json.Unmarshal(raw, &decoded); err != nil {
			t.Fatal(err)
		}
		for _, same := range []m{shuffled, decoded} {
			if got, err := (idempotency.Parts{Operation: "op", Params: same}).Key(); err != nil || got != key {
				t.Fatalf("%s, %v; want %s", got, err, key)
			}
		}
		params["one more"] = nil
		if other, err := (idempotency.Parts{Operation: "op", Params: params}).Key(); err != nil || other == key {
			t.Fatalf("another parameter: %s, %v", other, err)
		}
	})
}
