package policyfile

import (
	"errors"
	"testing"

	"github.com/tenetdev/tenet/policy"
)

// FuzzParse checks that no input panics, that a rejection lists faults, and that an accepted document returns policies.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"valid", "invalid"} {
		for _, text := range corpus(f, folder) {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse("fuzz", text, Options{})
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) || len(refused.Faults) == 0 || refused.Error() == "" {
				t.Fatalf("refused without a fault: %v", err)
			}
			for _, fault := range refused.Faults {
				_ = fault.Caret()
			}
			return
		}
		keys := append(d.Set.Keys(), policy.ParseKey("other.Key"), policy.JobKey("q", "t"), policy.ConsumerKey("c", "fetch"))
		for _, key := range keys {
			p, err := d.Set.Policy(t.Context(), key)
			if err != nil || p.Key != key || p.Retry.MaxAttempts < 1 || p.Retry.MaxBackoff < 0 || !p.Compiled() {
				t.Fatalf("%s: %+v, %v", key, p, err)
			}
			d.Origin(key, "retry.max_attempts")
		}
		again, err := Parse("fuzz", text, Options{})
		if err != nil || again.Set.Revision() != d.Set.Revision() {
			t.Fatalf("read twice: %v", err)
		}
	})
}

// FuzzFormat checks that formatting keeps the meaning of every accepted document, and that formatting it again changes nothing.
func FuzzFormat(f *testing.F) {
	for _, text := range corpus(f, "valid") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := Parse("fuzz", text, Options{}); err != nil {
			return
		}
		once, err := Format("fuzz", text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		twice, err := Format("fuzz", once, Options{})
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%v\nonce:\n%s\ntwice:\n%s", err, once, twice)
		}
	})
}
