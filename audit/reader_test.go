package audit

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/policy"
)

func TestA3TheReaderAcceptsTheEncodersOutput(t *testing.T) {
	for _, want := range []string{"", "plain", "a\"b\\c/d", "\b\f\n\r\t\x00\x1f", "ü€\U0001F600", strings.Repeat(`\`, 9)} {
		r := lineReader{line: appendString(nil, want)}
		if got := string(r.text()); r.bad || r.at != len(r.line) || got != want {
			t.Errorf("%q: %q, bad %v", want, got, r.bad)
		}
	}
	for _, want := range []Nanos{0, 1, -1, math.MaxInt64, math.MinInt64} {
		r := lineReader{line: appendNanos(nil, want)}
		if got := r.nanos(); r.bad || got != want {
			t.Errorf("%d: %d, bad %v", want, got, r.bad)
		}
	}
}

func TestA3TheReaderRejectsOtherEncodings(t *testing.T) {
	for line, read := range map[string]func(r *lineReader){
		`"no end`:                       func(r *lineReader) { r.text() },
		`"no end\"`:                     func(r *lineReader) { r.text() },
		`"\x"`:                          func(r *lineReader) { r.text() },
		`"\u12"`:                        func(r *lineReader) { r.text() },
		`"\u12g4"`:                      func(r *lineReader) { r.text() },
		"9223372036854775808":           func(r *lineReader) { r.integer() },
		"-9223372036854775809":          func(r *lineReader) { r.integer() },
		"18446744073709551616":          func(r *lineReader) { r.unsigned() },
		"1.5":                           func(r *lineReader) { r.unsigned() },
		"x":                             func(r *lineReader) { r.boolean() },
		`"yesterday"`:                   func(r *lineReader) { r.time() },
		"@":                             func(r *lineReader) { r.value() },
		strings.Repeat("[", 1+maxDepth): func(r *lineReader) { r.value() },
	} {
		r := lineReader{line: []byte(line)}
		if read(&r); !r.bad {
			t.Errorf("%s is accepted", line)
		}
	}
	for _, line := range []string{`null`, `[1,-2.5e9,"a",true,false,{"a":null}]`, `"\/"`} {
		if r := (lineReader{line: []byte(line)}); string(r.value()) != line || r.bad {
			t.Errorf("%s is refused", line)
		}
	}
	r := lineReader{line: []byte(`"\/"`)} // JSON, but not canonical
	if got := string(r.text()); got != "/" || r.bad {
		t.Errorf("an escaped slash is %q", got)
	}
}

func TestA4FieldsOfABreakerAreNamedByItsKind(t *testing.T) {
	if got := ofCircuit(nil); got != "circuit.kind" {
		t.Error(got)
	}
	for kind, want := range map[policy.CircuitKind][2]string{
		policy.CircuitConsecutive: {"circuit.failures", "5"}, policy.CircuitRate: {"circuit.failure_rate", "0.5"},
		policy.CircuitSlow: {"circuit.slow_rate", "0.25"}, "": {"circuit.kind", ""},
	} {
		p := &policy.Policy{Circuit: policy.Circuit{Kind: kind, Failures: 5, FailureRate: 0.5, SlowRate: 0.25}}
		if path := ofCircuit(p); path != want[0] || fieldValue(p, path) != want[1] {
			t.Errorf("%q: %s is %s", kind, path, fieldValue(p, path))
		}
	}
	if got := fieldValue(&policy.Policy{Hedge: policy.Hedge{Budget: policy.BudgetRef{Name: "b"}}}, "hedge.budget.name"); got != "b" {
		t.Error(got)
	}
}

func TestA4FieldsHaveTheirValuesAsDocumentsWriteThem(t *testing.T) {
	p := &policy.Policy{
		Retry: policy.Retry{MaxAttempts: 3, MaxBackoff: time.Second, MaxPushback: math.MaxInt64, AbortOn: []policy.Class{"http_4xx", "dns"}},
		Limit: policy.Limit{Rate: policy.Rate{Count: 7}},
	}
	for path, want := range map[string]string{
		"retry.max_attempts": "3", "retry.backoff_cap": "1s", "retry.backoff": "0s", "retry.max_pushback": "none", "retry.abort_on": "http_4xx, dns",
		"limit.rate.count": "7", "hedge.max_extra_load": "0", ownMaximum: "",
	} {
		if got := fieldValue(p, path); got != want {
			t.Errorf("%s is %q, not %q", path, got, want)
		}
	}
}

func TestA5EveryMetricCanBeWatched(t *testing.T) {
	share := 7.0
	s := CategoryStats{
		Category: "RETRY_KV_GET", Calls: 7, Succeeded: 7, Failed: 7, Unfinished: 7, Attempts: 7, Retries: 7, Hedges: 7, SuccessRate: &share,
		AverageAttempts: &share, Amplification: &share, MeanDelay: 7e9, MaxDelay: 7e9, MaxRate: 7, MeanRate: 7,
	}
	for _, m := range s.metrics() {
		bound := map[string]string{"time": "6s"}[m.unit]
		if bound == "" {
			bound = "6"
		}
		a, err := ParseAlert(m.name + ">" + bound)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&StatsReport{Categories: []CategoryStats{s}}).Check(a); len(got) != 1 || got[0].Value != 7 {
			t.Errorf("%s: %+v", m.name, got)
		}
	}
	if got := (&StatsReport{Total: s}).Check(Alert{Metric: "none"}); got != nil {
		t.Errorf("an unknown metric fires: %+v", got)
	}
}

func TestA3FaultsReadAsOneLine(t *testing.T) {
	for want, f := range map[string]Fault{
		"changed: index 2, chain c, seq 3, event e":   {Index: 2, ChainID: "c", Seq: 3, EventID: "e", Kind: FaultChanged},
		"truncated: index 9, chain -, seq 1, event -": {Index: 9, Seq: 1, Kind: FaultTruncated},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
