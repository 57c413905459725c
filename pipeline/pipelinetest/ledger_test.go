package pipelinetest

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
)

// asScripted records a run without faults.
func asScripted(n int) (*ledger, map[int][]string) {
	l, letters := newLedger(n), map[int][]string{}
	l.third = func() {}
	for i := range n {
		switch c := scripted(i); c {
		case failsOnce:
			l.attempt(i)
		case nacked:
			l.end(i, pipeline.Failed, classify.CategorySystem)
		case refused:
			l.letter(letters, i, classify.CategoryBusiness)
			continue
		case exhausted:
			l.letter(letters, i, classify.CategorySystem)
			continue
		case timesOut:
			l.letter(letters, i, classify.CategoryTimeout)
			continue
		}
		l.attempt(i)
		l.end(i, pipeline.Success, classify.CategorySystem)
	}
	return l, letters
}

func (l *ledger) end(i int, outcome pipeline.Outcome, category classify.Category) {
	l.ended(pipeline.Ended{
		Delivery: pipeline.Delivery{Transaction: pipeline.NewTransaction(strconv.Itoa(i), nil)}, Outcome: outcome,
		Err: &pipeline.TransactionError{Category: category, Cause: errors.New("down")},
	})
}

func (l *ledger) letter(letters map[int][]string, i int, category classify.Category) {
	letters[i] = append(letters[i], category.String())
	l.end(i, pipeline.Exception, category)
}

// TestL4TheAuditOfCrashesFindsFaults uses the transaction numbers of the script.
func TestL4TheAuditOfCrashesFindsFaults(t *testing.T) {
	const n = 5000
	for name, test := range map[string]struct {
		spoil func(l *ledger, letters map[int][]string)
		says  string
	}{
		"nothing": {func(*ledger, map[int][]string) {}, ""},
		"a repeated end": {func(l *ledger, letters map[int][]string) {
			l.end(0, pipeline.Success, classify.CategorySystem)
			l.letter(letters, 7, classify.CategoryBusiness)
			l.end(1, pipeline.Redelivered, classify.CategorySystem)
		}, ""},
		"lost":                               {func(l *ledger, _ map[int][]string) { l.entries[0].ends = nil }, `0 ended as [] instead of ["success"]`},
		"a letter lost":                      {func(_ *ledger, letters map[int][]string) { delete(letters, 11) }, `11 has the letters [] instead of ["system"]`},
		"an extra letter":                    {func(_ *ledger, letters map[int][]string) { letters[2] = []string{"system"} }, `2 succeeded and has the letters ["system"]`},
		"a letter of an unknown transaction": {func(_ *ledger, letters map[int][]string) { letters[n] = []string{"system"} }, "which was never there"},
		"another category":                   {func(_ *ledger, letters map[int][]string) { letters[1] = []string{"system"} }, `1 has the letters ["system"] instead of ["timeout"]`},
		"two ends":                           {func(l *ledger, _ map[int][]string) { l.end(0, pipeline.Exception, classify.CategorySystem) }, `0 ended as ["success" "system"]`},
		"an unscripted fault":                {func(l *ledger, _ map[int][]string) { l.end(0, pipeline.Failed, classify.CategorySystem) }, "a delivery of 0 failed"},
		"not retried":                        {func(l *ledger, _ map[int][]string) { l.entries[3].attempts = 1 }, "3 ended after 1 attempts"},
		"not given back":                     {func(l *ledger, _ map[int][]string) { l.entries[15].nacks = 0 }, "given back 0 times"},
	} {
		t.Run(name, func(t *testing.T) {
			l, letters := asScripted(n)
			test.spoil(l, letters)
			got := strings.Join(l.audit(letters), "; ")
			if (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
				t.Errorf("the audit reports %q, want %q", got, test.says)
			}
			select {
			case <-l.complete:
			default:
				t.Error("the ledger is not complete")
			}
		})
	}
}
