package storetest

import (
	"slices"

	"github.com/tenetdev/tenet/audit"
)

func auditFindCases() []auditCase {
	return []auditCase{
		{name: "A2/lines are found backwards, by work and by rare types", run: findBackwards},
		{name: "A2/a search for a type without an index is refused", run: func(s *sink) {
			if err := optional[audit.Finder](s, s.Source).Find(s.ctx, audit.Query{Type: audit.RetryAttempt}, func(string, []byte) error { return nil }); err == nil {
				s.Error("found")
			}
		}},
	}
}

func findBackwards(s *sink) {
	finder := optional[audit.Finder](s, s.Source)
	c := newChain("c")
	var all []audit.Entry
	for i := range 1300 { // more than a page
		all = append(all, c.next(func(e *audit.Event) {
			e.WorkID, e.Type = []string{"", "one", "two"}[i%3], audit.RetryAttempt
			if i%50 == 0 {
				e.Type = []audit.Type{audit.PolicySnapshot, audit.OperatorAction}[i/50%2]
			}
		}))
	}
	s.append(all...)
	stored := s.read("")
	find := func(q audit.Query, below int) {
		s.Helper()
		var want, got []string
		for i := below - 1; i >= 0; i-- {
			if e := all[i].Event; (q.WorkID == "" || q.WorkID == e.WorkID) && (q.Type == "" || q.Type == e.Type) {
				want = append(want, stored[i].cursor+string(all[i].Line))
			}
		}
		err := finder.Find(s.ctx, q, func(cursor string, line []byte) error {
			got = append(got, cursor+string(line))
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			s.Errorf("%+v: %d lines, %v; want %d", q, len(got), err, len(want))
		}
	}
	for _, work := range []string{"", "one", "two", "none"} {
		for _, kind := range []audit.Type{"", audit.PolicySnapshot, audit.OperatorAction, audit.PolicyChanged} {
			find(audit.Query{WorkID: work, Type: kind}, len(all))
			find(audit.Query{WorkID: work, Type: kind, Before: stored[777].cursor}, 777)
		}
	}
	s.stops(func(f func(string, []byte) error) error { return finder.Find(s.ctx, audit.Query{}, f) })
}
