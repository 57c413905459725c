package secrets

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestSecretsOfPayloadsAreHidden(t *testing.T) {
	for payload, want := range map[string]string{
		`{"url":"https://h/","headers":{"authorization":"s3cret","X-A":"b"}}`: `{"url":"https://h/","headers":{"authorization":"[redacted]","X-A":"b"}}`,
		`{"b":[{"SET_COOKIE":["s3cret","t"]}], "n": 1.50, "a<b":null}`:        `{"b":[{"SET_COOKIE":"[redacted]"}],"n":1.50,"a<b":null}`,
		`{"headers":{"Cookie":null,"x-api-key":{"deep":"s3cret"}}}`:           `{"headers":{"Cookie":"[redacted]","x-api-key":"[redacted]"}}`,
		`{"url":"https://me:s3cret@h/"}`:                                      `{"url":"https://me:xxxxx@h/"}`,
		`{"url":"amqp://me:s3c%ret@h/","Url":"amqp://me:s3/cret@h/"}`:         `{"url":"[redacted]","Url":"[redacted]"}`,
		`{"url":"%zz"}`:             `{"url":"%zz"}`,
		`{"token":"s3cret"}`:        `{"token":"[redacted]"}`,
		`{ "nothing" : "to hide" }`: `{ "nothing" : "to hide" }`,
		`no JSON: Cookie`:           `no JSON: Cookie`,
		`"text"`:                    `"text"`,
		``:                          ``,
	} {
		s := &Redaction{More: []string{"Token"}}
		if got := string(s.JSON([]byte(payload))); got != want {
			t.Errorf("%s:\n got %s\nwant %s", payload, got, want)
		}
		s.Show = true
		if got := string(s.JSON([]byte(payload))); got != payload {
			t.Errorf("shown: got %s, want %s", got, payload)
		}
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
			return rapid.SampledFrom([]string{"", "@:", "http://u:p@h/"}).Draw(t, "start") + rapid.String().Draw(t, "text") + "s3cret"
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(map[string]any{"keep": value(3).Draw(t, "value"), "Set-Cookie": "s3cret"})
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]any
		hidden := (&Redaction{}).JSON(raw)
		if json.Unmarshal(raw, &before) != nil || json.Unmarshal(hidden, &after) != nil {
			t.Fatalf("%s became %s", raw, hidden)
		}
		if after["Set-Cookie"] != Hidden || same(before["keep"], after["keep"]) != "" {
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
			if (&Redaction{}).Secret(name) {
				if b[name] != Hidden {
					return name
				}
				continue
			}
			if text, ok := v.(string); ok && name == "url" {
				v = withoutPassword(text)
			}
			if d := same(v, b[name]); d != "" {
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
