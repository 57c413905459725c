package jobs

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/job"
)

func TestSecretsOfPayloadsAreHidden(t *testing.T) {
	for payload, want := range map[string]string{
		`{"url":"https://h/","headers":{"authorization":"s3cret","X-A":"b"}}`: `{"url":"https://h/","headers":{"authorization":"[redacted]","X-A":"b"}}`,
		`{"b":[{"SET_COOKIE":["s3cret","t"]}], "n": 1.50, "a<b":null}`:        `{"b":[{"SET_COOKIE":"[redacted]"}],"n":1.50,"a<b":null}`,
		`{"headers":{"Cookie":null,"x-api-key":{"deep":"s3cret"}}}`:           `{"headers":{"Cookie":"[redacted]","x-api-key":"[redacted]"}}`,
		`{"url":"https://me:s3cret@h/"}`:                                      `{"url":"https://me:xxxxx@h/"}`,
		`{"token":"s3cret"}`:                                                  `{"token":"[redacted]"}`,
		`{ "nothing" : "to hide" }`:                                           `{ "nothing" : "to hide" }`,
		`no JSON: Cookie`:                                                     `no JSON: Cookie`,
		`"text"`:                                                              `"text"`,
		``:                                                                    ``,
	} {
		s := &Secrets{more: []string{"Token"}}
		if got := string(s.Payload([]byte(payload))); got != want {
			t.Errorf("%s:\n got %s\nwant %s", payload, got, want)
		}
		s.show = true
		if got := string(s.Payload([]byte(payload))); got != payload {
			t.Errorf("shown: got %s, want %s", got, payload)
		}
	}
}

func TestHidingSecretsChangesNoJob(t *testing.T) {
	r := &job.Record{Payload: []byte(`{"cookie":"s3cret"}`), Meta: map[string]string{"Authorization": "s3cret", "tenant_id": "a"}}
	hidden := (&Secrets{}).hide(r)
	if strings.Contains(string(hidden.Payload)+hidden.Meta["Authorization"], "s3cret") || hidden.Meta["tenant_id"] != "a" {
		t.Errorf("hidden: %s, %v", hidden.Payload, hidden.Meta)
	}
	if string(r.Payload) != `{"cookie":"s3cret"}` || r.Meta["Authorization"] != "s3cret" {
		t.Errorf("the job: %s, %v", r.Payload, r.Meta)
	}
}

func TestAPayloadStaysJSONWithoutItsSecrets(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "Cookie", "url", "headers", "x_api_key", "\n"})
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			switch n := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case n == 0 && depth > 0:
				return rapid.MapOfN(names, value(depth-1), 0, 4).Draw(t, "object")
			case n == 1 && depth > 0:
				return rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list")
			case n == 2:
				return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
			case n == 3:
				return nil
			}
			return rapid.String().Draw(t, "text") + "s3cret"
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(map[string]any{"keep": value(3).Draw(t, "value"), "Set-Cookie": "s3cret"})
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]any
		hidden := (&Secrets{}).Payload(raw)
		if json.Unmarshal(raw, &before) != nil || json.Unmarshal(hidden, &after) != nil {
			t.Fatalf("%s became %s", raw, hidden)
		}
		if after["Set-Cookie"] != hiddenValue || same(before["keep"], after["keep"]) != "" {
			t.Fatalf("%s became %s: %s", raw, hidden, same(before["keep"], after["keep"]))
		}
	})
}

// same says where two values differ other than by a secret.
func same(a, b any) string {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return "an object"
		}
		for name, v := range a {
			if (&Secrets{}).secret(name) {
				if b[name] != hiddenValue {
					return name
				}
			} else if d := same(v, b[name]); d != "" {
				return name + "." + d
			}
		}
		return ""
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return "a list"
		}
		for i := range a {
			if d := same(a[i], b[i]); d != "" {
				return d
			}
		}
		return ""
	}
	if a != b {
		return "a value"
	}
	return ""
}
