package storetest

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/lists"
)

// tenant is a scope that no other case uses.
func tenant() string { return fmt.Sprintf("tenant-%s-%d", run, ids.Add(1)) }

// listed is a page, which must come.
func (s *keys) listed(f idempotency.Filter, after idempotency.ID, limit int) []idempotency.Record {
	s.Helper()
	list, err := s.List(s.ctx, f, after, limit)
	s.need(fmt.Sprintf("List(%+v, %+v)", f, after), err)
	return list
}

// lists fails the case unless a filter selects exactly these keys.
func (s *keys) lists(f idempotency.Filter, want ...string) {
	s.Helper()
	got := lists.Map(s.listed(f, idempotency.ID{}, 100), func(r idempotency.Record) string { return r.Key })
	if !slices.Equal(want, got) {
		s.Fatalf("List(%+v): %q, want %q", f, got, want)
	}
}

func listCases() []keysCase {
	return []keysCase{
		{name: "I2/pages list every record once, in the order of its ID, without its result", run: func(s *keys) {
			first, second := tenant(), tenant() // the second sorts behind the first
			if first > second {
				first, second = second, first
			}
			var want []idempotency.Record
			for _, id := range []idempotency.ID{
				{Tenant: first, Operation: "a", Key: "Z"}, {Tenant: first, Operation: "a", Key: "a"}, {Tenant: first, Operation: "a", Key: "é"},
				{Tenant: first, Operation: "b", Key: "a"}, {Tenant: second, Key: "a"},
			} {
				c := s.claim(request(id))
				if id.Operation == "a" {
					s.must(s.Settle(s.ctx, c, completed("r")), nil)
				}
				r := s.got(id)
				r.Result = nil
				want = append(want, r)
			}
			var got []idempotency.Record
			after := idempotency.ID{Tenant: first}
			for page := range len(want) + 1 {
				list := s.listed(idempotency.Filter{}, after, 2)
				if page == 1 { // what comes before the cursor changes no page behind it
					s.claim(request(idempotency.ID{Tenant: first, Operation: "a", Key: "B"}))
					s.must(s.Clear(s.ctx, want[0].Claim()), nil)
				}
				if len(list) == 0 || list[0].Tenant > second {
					break
				}
				after = list[len(list)-1].ID
				got = append(got, slices.DeleteFunc(list, func(r idempotency.Record) bool { return r.Tenant > second })...)
			}
			noDiff(s, "records", cmp.Diff(want, got, cmpopts.EquateEmpty()))
		}},
		{name: "I2/a list is of a scope", run: func(s *keys) {
			t := tenant()
			for _, operation := range []string{"", "a", "b"} {
				s.claim(request(idempotency.ID{Tenant: t, Operation: operation, Key: "in " + operation}))
			}
			s.lists(idempotency.Filter{Tenant: t}, "in ", "in a", "in b")
			s.lists(idempotency.Filter{Tenant: t, Operation: "b"}, "in b")
			s.lists(idempotency.Filter{Tenant: t, Operation: "c"})
			same(s, "records on a page of none", len(s.listed(idempotency.Filter{Tenant: t}, idempotency.ID{}, 0)), 0)
		}},
		{name: "I4/a list of unknown outcomes holds lapsed claims, and no live ones", run: func(s *keys) {
			id := idempotency.ID{Tenant: tenant()}
			named := func(key string) idempotency.ID { id.Key = key; return id }
			s.claim(s.shortLease(named("lapsed")))
			s.claim(s.shortLease(named("unknown")))
			for _, settlement := range settlements() {
				s.must(s.Settle(s.ctx, s.claim(request(named(string(settlement.State)))), settlement), nil)
			}
			short := completed("r")
			short.TTL = s.short
			s.must(s.Settle(s.ctx, s.claim(request(named("expired"))), short), nil)
			s.lapse(s.short)
			s.begin(request(named("unknown")), idempotency.Undecidable)
			s.claim(request(named("live")))
			for state, want := range map[idempotency.State][]string{
				"":                    {"completed", "failed", "lapsed", "live", "released", "unknown"},
				idempotency.Unknown:   {"lapsed", "unknown"},
				idempotency.InFlight:  {"live"},
				idempotency.Completed: {"completed"},
				idempotency.Failed:    {"failed"},
				idempotency.Released:  {"released"},
			} {
				s.lists(idempotency.Filter{State: state, Tenant: id.Tenant}, want...)
			}
			if _, err := s.List(s.ctx, idempotency.Filter{State: "done"}, idempotency.ID{}, 1); err == nil {
				s.Fatal("a state that records do not have is taken")
			}
		}},
	}
}
