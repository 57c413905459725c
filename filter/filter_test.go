package filter_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/filter"
)

var fields = []filter.Field{
	{Name: "state"}, {Name: "queue", Prefix: true}, {Name: "type", Prefix: true}, {Name: "error"}, {Name: "meta", Nested: true},
	{Name: "payload", Nested: true}, {Name: "before"},
}

func TestS7TheGrammar(t *testing.T) {
	exactly := filter.Exactly
	for text, want := range map[string]filter.Terms{
		"":     nil,
		" \n ": nil,
		`state:dead queue:mail type:"mail:*" error:timeout meta.tenant:acme payload.order.id:42 before:2h`: {
			{"state", "", exactly("dead"), 1}, {"queue", "", exactly("mail"), 12}, {"type", "", []filter.Value{{"mail:", true}}, 23},
			{"error", "", exactly("timeout"), 37}, {"meta", "tenant", exactly("acme"), 51}, {"payload", "order.id", exactly("42"), 68},
			{"before", "", exactly("2h"), 88},
		},
		"state:dead,cancelled":          {{"state", "", exactly("dead", "cancelled"), 1}},
		`error:"a, \"b\" \\ c",d`:       {{"error", "", exactly(`a, "b" \ c`, "d"), 1}},
		`queue:mail*,"x*",y`:            {{"queue", "", []filter.Value{{"mail", true}, {"x", true}, {"y", false}}, 1}},
		`queue:"50\*"`:                  {{"queue", "", exactly("50*"), 1}},
		"before:2026-03-02T08:00:00Z":   {{"before", "", exactly("2026-03-02T08:00:00Z"), 1}},
		`meta.größe:ä   error:c:\x`:     {{"meta", "größe", exactly("ä"), 1}, {"error", "", exactly(`c:\x`), 16}},
		"meta.a:1 meta.b:1 payload.a:1": {{"meta", "a", exactly("1"), 1}, {"meta", "b", exactly("1"), 10}, {"payload", "a", exactly("1"), 19}},
	} {
		got, err := filter.Parse(text, fields)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
}

func TestS7AFaultHasAPositionAndARemedy(t *testing.T) {
	long := strings.Repeat("x", 600)
	for text, want := range map[string]string{
		"timeout":                   `character 1: "timeout" names no field; write error:timeout for jobs whose last error contains it`,
		"state:dead ünder":          `character 12: "ünder" names no field; write error:ünder`,
		"meta.n=2":                  "character 1: a colon stands between a field and its value; write meta.n:2",
		"code=5":                    `character 1: "code=5" names no field; write error:code=5`,
		`"a b"`:                     "character 1: a term begins with the name of a field and a colon, as in state:dead",
		"state:dead AND queue:x":    "character 12: leave out AND: all terms hold anyway",
		"state:dead OR state:ready": "character 12: there is no OR; alternatives of one field are separated by commas",
		"-state:dead":               "character 1: there is no negation; list the values that you want",
		"staet:dead":                `character 1: unknown field "staet"; did you mean state?`,
		"zzz:dead":                  `character 1: unknown field "zzz"; the fields are state, queue, type,`,
		"state.x:dead":              "character 1: state takes no name after a dot; write state:",
		"meta:acme":                 "character 1: meta takes a name after a dot, as in meta.order:42",
		"meta.:acme":                "character 1: meta takes a name after a dot",
		"payload.a..b:1":            "character 1: payload takes a name after a dot",
		"state:":                    "character 7: state has no value",
		`state:""`:                  "character 7: state has no value",
		"state:dead,":               "character 12: state has no value",
		"queue:*":                   "character 7: queue has no value",
		"state:d*":                  `character 7: state takes whole values, without *; for the character, write "\*"`,
		"queue:a*b":                 `character 9: a * stands at the end of a value; for the character, write "\*"`,
		`queue:a"b"`:                `character 8: put the whole value of queue in quotes, and write \" for a quote in it`,
		`error:"a`:                  "character 7: the quote is not closed",
		`error:"a\n"`:               `character 9: in quotes, a backslash stands before ", \ or * only`,
		`error:"a"b`:                "character 10: a quoted value ends the term; put white space or a comma behind it",
		"state:dead state:ready":    "character 12: state is named twice; separate alternatives by commas",
		"meta.a:1 meta.a:2":         "character 10: meta.a is named twice",
		"error:a\x00":               "character 8: a NUL character",
		"error:a\xff":               "character 1: the filter is not valid UTF-8",
		"error:" + long:             "character 7: the value of error has 600 bytes, above the limit of 512",
		"meta." + long + ":a":       "character 1: the name after meta. has 600 bytes, above the limit of 512",
		"queue:a" + strings.Repeat(",a", filter.MaxValues): "character 1: queue has more than 100 values",
		strings.Repeat(" ", filter.MaxLength+1):            "character 1: the filter has 8193 bytes, above the limit of 8192",
	} {
		_, err := filter.Parse(text, fields)
		fault, ok := errors.AsType[*filter.Error](err)
		if !ok || !strings.HasPrefix(fault.Error(), "filter: "+want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	var many strings.Builder
	for i := range filter.MaxTerms + 1 {
		many.WriteString("meta." + strings.Repeat("x", i+1) + ":1 ")
	}
	if _, err := filter.Parse(many.String(), fields); err == nil || !strings.Contains(err.Error(), "more than 32 terms") {
		t.Error(err)
	}
}

func TestValuesMatch(t *testing.T) {
	term := filter.Term{Values: []filter.Value{{Text: "mail:", Prefix: true}, {Text: "sms"}}}
	for text, want := range map[string]bool{"mail:": true, "mail:send": true, "sms": true, "mail": false, "sms2": false, "": false} {
		if term.Matches(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// FuzzParse checks that what was parsed is written in a form that parses to the same, and that faults have a position within
// the text.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`state:dead queue:mail type:"mail:*" error:timeout meta.tenant:acme payload.order.id:42 before:2h`, `queue:"a\*\"\\, ",b*`, "a", ":", `error:"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		terms, err := filter.Parse(text, fields)
		if fault, ok := errors.AsType[*filter.Error](err); ok {
			if fault.Pos < 1 || fault.Pos > len(text)+1 || fault.Problem == "" {
				t.Fatalf("%+v", fault)
			}
			return
		}
		again, err := filter.Parse(terms.String(), fields)
		if len(terms.String()) > filter.MaxLength {
			return // quoting makes a filter longer
		}
		if err != nil || !cmp.Equal(terms, again, cmpopts.IgnoreFields(filter.Term{}, "Pos")) {
			t.Fatalf("%q is written as %q: %v, %v", text, terms, again, err)
		}
		if !reflect.DeepEqual(terms.String(), again.String()) {
			t.Fatalf("%q, then %q", terms, again)
		}
	})
}
