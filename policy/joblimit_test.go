package policy

import (
	"strings"
	"testing"
	"time"
)

func TestJ19JobLimitsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		limit JobLimit
		want  string // in the error; "" for none
	}{
		"concurrency":                   {JobLimit{Name: "a", Concurrency: 3, Key: []string{"queue", "type", "meta.a.b", "payload.x.y"}}, ""},
		"rate":                          {JobLimit{Name: "a", Rate: Rate{Count: 3}}, ""},
		"strict":                        {JobLimit{Name: "a", Concurrency: 1, Order: OrderStrict}, ""},
		"no name":                       {JobLimit{Concurrency: 3}, "name: missing"},
		"name with a space":             {JobLimit{Name: "a b", Concurrency: 3}, `name: "a b" is not a name`},
		"no bound":                      {JobLimit{Name: "a"}, "concurrency: missing, and there is no rate"},
		"negative concurrency":          {JobLimit{Name: "a", Concurrency: -1}, "concurrency: -1 must be at least 1"},
		"rate without a count":          {JobLimit{Name: "a", Rate: Rate{Per: time.Second}}, "rate.count: missing"},
		"period above an hour":          {JobLimit{Name: "a", Rate: Rate{Count: 1, Per: 2 * time.Hour}}, "rate.per: 2h0m0s must be at most 1h; write 1h or less"},
		"strict with two at a time":     {JobLimit{Name: "a", Concurrency: 2, Order: OrderStrict}, "order: strict needs concurrency 1, not 2"},
		"strict with a rate only":       {JobLimit{Name: "a", Rate: Rate{Count: 1}, Order: OrderStrict}, "order: strict needs concurrency 1"},
		"unknown order":                 {JobLimit{Name: "a", Concurrency: 1, Order: "random"}, `order: unknown value "random"`},
		"unknown field":                 {JobLimit{Name: "a", Concurrency: 1, Key: []string{"tenant"}}, `key[0]: unknown field "tenant"`},
		"field without a name":          {JobLimit{Name: "a", Concurrency: 1, Key: []string{"meta."}}, `key[0]: "meta." lacks a name`},
		"payload with an empty part":    {JobLimit{Name: "a", Concurrency: 1, Key: []string{"payload.a..b"}}, `key[0]: "payload.a..b" lacks a name`},
		"field given twice":             {JobLimit{Name: "a", Concurrency: 1, Key: []string{"queue", "queue"}}, `key[1]: "queue" is given twice`},
		"more fields than a key may be": {JobLimit{Name: "a", Concurrency: 1, Key: strings.Split("meta.a meta.b meta.c meta.d meta.e meta.f meta.g meta.h meta.i", " ")}, "key: 9 fields"},
	} {
		err := test.limit.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if err := (Queue{Limits: []JobLimit{{Name: "a", Concurrency: 1}, {Name: "a", Concurrency: 2}}}).Validate(JobLimits()); err == nil ||
		!strings.Contains(err.Error(), `limits[1].name: "a" is given twice`) {
		t.Error(err)
	}
}

func TestJ19JobLimitsHaveDefaults(t *testing.T) {
	l := JobLimit{Name: "a", Rate: Rate{Count: 7}}.Normalize()
	if l.Rate != (Rate{Count: 7, Per: time.Second, Burst: 7}) || l.Order != OrderPriority {
		t.Errorf("%+v", l)
	}
}
