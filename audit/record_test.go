package audit

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestA3RecordRejectsUnreadableValues(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{})
	for name, e := range map[string]Event{
		"not a number":      {Delay: math.NaN()},
		"infinity":          {Delay: math.Inf(1)},
		"no policy":         {Policy: json.RawMessage("{bad\n")},
		"a year too large":  {Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"a year too small":  {Time: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)},
		"a count too large": {Count: math.MaxUint64},
		"too large":         {Detail: strings.Repeat("x", largestEvent)},
	} {
		e.Type = OperatorAction
		if err := l.Record(bg, e); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := l.Record(bg, Event{Type: PolicyChanged, Policy: json.RawMessage("{\"b\": 1,\n \"a\": 2.0}")}); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	report, err := Verify(bg, &sink, VerifyOptions{})
	if err != nil || !report.Intact() || report.Events != 2 {
		t.Fatalf("%v: %+v", err, report)
	}
	if got := string(sink.Events()[1].Policy); got != `{"a":2,"b":1}` {
		t.Errorf("the policy is stored as %s", got)
	}
}
