package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestP2ParseKey(t *testing.T) {
	for text, want := range map[string]Key{
		"user-service.GetUser": {"user-service", "GetUser"},
		"a.b.c":                {"a", "b.c"},
		"  a.b\t":              {"a", "b"},
		"name":                 {"", "name"},
		".name":                {"", ".name"},
		"space.":               {"", "space."},
		".":                    {"", "."},
		"":                     {},
		" ":                    {},
	} {
		if got := ParseKey(text); got != want {
			t.Errorf("ParseKey(%q) = %#v, want %#v", text, got, want)
		}
	}
	if !ParseKey(" ").IsZero() || ParseKey("a").IsZero() {
		t.Error("only an empty key is zero")
	}
}

func TestP2KeysPrintAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		key := ParseKey(text)
		if key.String() != strings.TrimSpace(text) {
			t.Fatalf("%q became %q", text, key)
		}
		if ParseKey(key.String()) != key {
			t.Fatalf("%q is parsed differently the second time", key)
		}
	})
}

func TestKeysOfJobsAndStepsDiffer(t *testing.T) {
	for key, want := range map[Key]Surface{
		JobKey("mail", "send"):           SurfaceJob,
		JobKey("", "send"):               SurfaceJob,
		ConsumerKey("orders", "process"): SurfaceStep,
		ProducerKey("bills", "produce"):  SurfaceStep,
		ParseKey("jobs.Send"):            SurfaceCall,
		ParseKey("job"):                  SurfaceCall,
		{}:                               SurfaceCall,
	} {
		if got := key.Surface(); got != want {
			t.Errorf("%s is a %s, want %s", key, got, want)
		}
	}
	if ConsumerKey("x", "success") == ProducerKey("x", "success") {
		t.Error("consumer and producer share a key")
	}
}
