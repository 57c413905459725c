package file

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestL11IdentifyFindsTheID(t *testing.T) {
	for line, want := range map[string]string{
		`{"id":"a"}`: "a", ` {"x":1 , "id" : "a b" } `: "a b", `{"id":17}`: "17", `{"id":-1.5e3}`: "-1.5e3",
		`{"id":"\u00e4\n"}`: "ä\n", `{"id":"a","id":"b"}`: "b", `{"id":"a","id":null}`: "",
		`{"id":null}`: "", `{"id":""}`: "", `{"id":true}`: "", `{"id":{"id":"x"}}`: "", `{"x":{"id":"y"}}`: "", `[{"id":"a"}]`: "",
		`{}`: "", `[]`: "", `"id"`: "", `17`: "", `{"ID":"a"}`: "", `{"i\u0064":"a"}`: "",
	} {
		if got, err := identify([]byte(line)); err != nil || got != want {
			t.Errorf("%s: %q, %v instead of %q", line, got, err, want)
		}
	}
	for line, problem := range map[string]string{
		`{"id":}`: "column 7", `{"a":1,}`: "column 8", `{"a":1} x`: "column 9", `{"a":"x`: "column 8", "\"a\tb\"": "column 3",
		`01`: "column 2", `1.`: "column 3", `nul`: "column 4", ``: "column 1", "\"\xff\"": "UTF-8", `"\x"`: "column 3",
		strings.Repeat("[", 2000): "column 1002",
	} {
		if _, err := identify([]byte(line)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%.20s: %v does not say %q", line, err, problem)
		}
	}
}

// agree checks that identify and encoding/json accept the same texts.
func agree(t interface{ Fatalf(string, ...any) }, text string) {
	id, err := identify([]byte(text))
	valid := json.Valid([]byte(text)) && utf8.ValidString(text)
	if (err == nil) != valid {
		t.Fatalf("%q: %v, and encoding/json says %v", text, err, valid)
	}
	var members map[string]any
	if !valid || json.Unmarshal([]byte(text), &members) != nil {
		return
	}
	want, isText := members["id"].(string)
	if isText && id != want {
		t.Fatalf("%q: the ID is %q instead of %q", text, id, want)
	}
}

func TestL11IdentifyAgreesWithEncodingJSON(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		`{`, `}`, `[`, `]`, `"`, `:`, `,`, `\`, `u00e4`, `"id"`, `"a"`, `:"x\n"`, `1`, `-`, `0`, `.5`, `e+1`, `E`, `true`, `null`, `false`, ` `, "\t", "ä", "\x01", "\xff",
	})
	rapid.Check(t, func(t *rapid.T) {
		agree(t, strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "text"), ""))
	})
	values := rapid.MapOf(rapid.SampledFrom([]string{"id", "a", "b\"", "ü"}), rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Float64(), func(f float64) any { return f }),
		rapid.Just[any](nil), rapid.Just[any](map[string]any{"id": "inner"}), rapid.Just[any]([]any{1, "x"}),
	))
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(values.Draw(t, "object"))
		if err != nil {
			return // not a number
		}
		agree(t, string(raw))
	})
}

func FuzzIdentify(f *testing.F) {
	for _, seed := range []string{`{"id":"a"}`, `[1,2.5e-3,"\u12aB"]`, `{"a":{"b":[null,true]}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "[")+strings.Count(text, "{") < maxDepth {
			agree(t, text)
		}
	})
}

func TestQuoteIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		var back string
		if err := json.Unmarshal(quote(nil, s), &back); err != nil || back != s {
			t.Fatalf("%q became %s (%v)", s, fmt.Sprintf("%q", back), err)
		}
	})
}
