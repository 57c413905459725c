package audit

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/policy"
)

const secretKey = "key-abcdefghijklmnopqrst"

func hidesKeys() Options {
	return Options{Redact: Redaction{Patterns: []*regexp.Regexp{regexp.MustCompile(`key-[a-z]{20}`)}}}
}

// TestA6NoPartOfASecretIsStored: wherever text is cut, a secret that lies across the cut is removed first.
func TestA6NoPartOfASecretIsStored(t *testing.T) {
	for _, limit := range []int{longestText, longestRaw} {
		var sink MemorySink
		l := open(t, &sink, hidesKeys())
		long := strings.Repeat("x", limit-15) + secretKey + "yyy"
		shrinking := strings.Repeat(secretKey, limit/len(secretKey)+1)
		for _, text := range []string{long, shrinking} {
			attributes := map[string]string{"k": text}
			if err := l.OperatorAction(bg, Operation{Actor: text, Action: "a", Detail: text, TenantID: text, Attributes: attributes}); err != nil {
				t.Fatal(err)
			}
			if err := l.PolicyChanged(bg, PolicyChange{To: getUser, Actor: "ann", Detail: text}); err != nil {
				t.Fatal(err)
			}
			e := failed("call", 1)
			e.Work.CorrelationID, e.Decision.Err, e.Decision.Outcome.Attributes = text, errors.New(text), attributes
			appendTo(t, l, e)
		}
		closeLog(t, l)
		for _, line := range sink.lines {
			if i := strings.Index(string(line), secretKey[:9]); i >= 0 {
				t.Errorf("%d: stored: %.60s", limit, line[i:])
			}
		}
		for _, e := range sink.Events() {
			for _, s := range []string{e.Detail, e.Actor, e.ExceptionMessage, e.CorrelationID, e.Attributes["k"]} {
				if len(s) > longestText+len("…") {
					t.Errorf("%d bytes of text are stored", len(s))
				}
			}
		}
	}
}

// TestA6RedactionThatLengthensIsMeasured: the limit of an event holds for what is stored.
func TestA6RedactionThatLengthensIsMeasured(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{Redact: Redaction{Patterns: []*regexp.Regexp{regexp.MustCompile(`[0-9]`)}}})
	defer closeLog(t, l)
	if err := l.Record(bg, Event{Type: OperatorAction, Actor: "ann", Reason: policy.ReasonOperator, Detail: strings.Repeat("7", 100<<10)}); err == nil || !strings.Contains(err.Error(), "above the limit") {
		t.Error(err)
	}
}
