package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
)

func TestS7AFilterOfJobsIsParsed(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	term := func(field, path string, values ...filter.Value) filter.Term {
		return filter.Term{Field: field, Path: path, Values: values}
	}
	for text, want := range map[string]job.Filter{
		"": {},
		`state:dead queue:mail type:"mail:*" error:timeout meta.tenant:acme payload.order.id:42 before:2h`: {
			States: []job.State{job.Dead}, CreatedBefore: now.Add(-2 * time.Hour),
			Terms: filter.Terms{
				term("queue", "", filter.Value{Text: "mail"}), term("type", "", filter.Value{Text: "mail:", Prefix: true}), term("error", "", filter.Value{Text: "timeout"}),
				term("meta", "tenant", filter.Value{Text: "acme"}), term("payload", "order.id", filter.Value{Text: "42"}),
			},
		},
		"state:ready,running id:a,b":                        {States: []job.State{job.Ready, job.Running}, IDs: []string{"a", "b"}},
		"before:2026-03-02T08:00:00+01:00 after:2026-03-01": {CreatedBefore: now.Add(-5 * time.Hour), CreatedAfter: now.Add(-36 * time.Hour)},
		"key:order-*": {Terms: filter.Terms{term("key", "", filter.Value{Text: "order-", Prefix: true})}},
	} {
		got, err := job.ParseFilter(text, now)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(filter.Term{}, "Pos")); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
		if err := got.Check(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"queue:a state:daed":     `character 9: state "daed" does not exist; did you mean dead?`,
		"state:x":                `character 1: state "x" does not exist; write one of waiting, scheduled, ready, running, completed, dead, cancelled`,
		"after:soon":             "character 1: after:soon: write a time such as 2026-03-02T08:00:00Z, a date, or a duration such as 24h",
		"before:-2h":             "character 1: before:-2h: write a time",
		"before:1h,2h":           "character 1: before takes one time",
		`state:dead meta.a\b:x`:  "character 12: meta.a\\b: names with quotes, backslashes or control characters cannot be searched",
		"tenant:acme":            `character 1: unknown field "tenant"; the fields are id, state, queue, type, key, error, cause, flow, meta, payload, before, after`,
		"payload.order.id:42*":   "character 18: payload.order.id takes whole values, without *",
		"state:dead errror:oops": `character 12: unknown field "errror"; did you mean error?`,
	} {
		if _, err := job.ParseFilter(text, now); err == nil || !strings.HasPrefix(err.Error(), "filter: "+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestS7TermsMadeInCodeAreChecked(t *testing.T) {
	long := strings.Repeat("x", filter.MaxValue+1)
	for name, term := range map[string]filter.Term{
		"no field": {Values: filter.Exactly("a")}, "state": {Field: "state", Values: filter.Exactly("dead")}, "no path": {Field: "meta", Values: filter.Exactly("a")},
		"a path": {Field: "queue", Path: "x", Values: filter.Exactly("a")}, "a quote": {Field: "meta", Path: `a"`, Values: filter.Exactly("a")},
		"no value": {Field: "queue"}, "an empty value": {Field: "queue", Values: filter.Exactly("")}, "a long value": {Field: "queue", Values: filter.Exactly(long)},
		"NUL": {Field: "queue", Values: filter.Exactly("\x00")}, "a prefix": {Field: "error", Values: []filter.Value{{Text: "a", Prefix: true}}},
	} {
		if err := (&job.Filter{Terms: filter.Terms{term}}).Check(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestS7ValuesOfPayloads(t *testing.T) {
	for payload, want := range map[string]bool{
		`{"order":{"id":42}}`: true, `{"order":{"id":"42"}}`: true, ` { "order" : { "id" : 42 } } `: true, `{"order":{"id":"\u0034\u0032"}}`: true, `{"\u006frder":{"id":42}}`: true,
		`{"order":{"id":42.0}}`: false, `{"order":{"id":4.2e1}}`: false, `{"order":{"id":[42]}}`: false, `{"order":[{"id":42}]}`: false, `{"order":{"ID":42}}`: false,
		`{"order.id":42}`: false, `{"order":{"id":42}`: false, `{"order":{"id":42},"x":"` + "\xff" + `"}`: false, `42`: false, ``: false, `null`: false, `{"order":null}`: false,
		`{"order":{"id":null}}`: false, `{"order":{"id":{"42":42}}}`: false,
	} {
		f := job.Filter{Terms: filter.Terms{{Field: job.FieldPayload, Path: "order.id", Values: filter.Exactly("42", "null")}}}
		if got := f.Matches(&job.Record{Payload: []byte(payload)}); got != want {
			t.Errorf("%s: %v", payload, got)
		}
	}
}
