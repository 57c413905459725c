package sqlite_test

import (
	"strconv"
	"testing"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
)

// TestS7FiltersOfAnyFormKeepFewStatements: each order of metadata and payload fields needs its own statement, which takes up 80 KiB.
func TestS7FiltersOfAnyFormKeepFewStatements(t *testing.T) {
	jobs := open(t).Jobs()
	for form := range 600 {
		var f job.Filter
		for bit := range 10 {
			term := filter.Term{Field: job.FieldMeta, Path: strconv.Itoa(bit), Values: filter.Exactly("v")}
			if form>>bit&1 == 1 {
				term.Field = job.FieldPayload
			}
			f.Terms = append(f.Terms, term)
		}
		if _, err := jobs.List(t.Context(), f, "", 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := jobs.Statements(); n > 510 {
		t.Errorf("%d statements are kept", n)
	}
}
