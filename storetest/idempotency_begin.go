package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/idempotency"
)

// beginCases checks what a begin does in each state.
func beginCases() []keysCase {
	return []keysCase{
		{name: "I3/an absent record is claimed", run: func(s *keys) {
			req := request(newKey())
			s.absent(req.ID)
			b := s.begin(req, idempotency.Run)
			want := idempotency.Record{
				ID: req.ID, Fingerprint: req.Fingerprint, State: idempotency.InFlight, Owner: req.Owner, Fence: b.Record.Fence, Attempts: 1,
				Lease: b.Record.Created.Add(req.Lease), PolicyHash: req.PolicyHash, Created: b.Record.Created,
			}
			s.same(want, b.Record)
			s.same(want, s.got(req.ID))
			if b.Record.Fence < 1 || b.Record.Created.IsZero() || b.Record.Created.Nanosecond()%1000 != 0 || b.Record.Created.Location() != time.UTC {
				s.Fatalf("claimed under fence %d at %v; want 1 or more, in UTC, to the microsecond", b.Record.Fence, b.Record.Created)
			}
			if s.virtual && !b.Record.Created.Equal(time.Now().Truncate(time.Microsecond)) {
				s.Fatalf("claimed at %v, want %v", b.Record.Created, time.Now())
			}
		}},
		{name: "I3/others are refused while a claim is live, and learn how long", run: func(s *keys) {
			c := s.claim(request(newKey()))
			s.unchanged(c.ID, func() {
				for _, req := range []idempotency.BeginRequest{request(c.ID), replaySafe(c.ID)} {
					b := s.begin(req, idempotency.Busy)
					s.same(s.got(c.ID), b.Record)
					if b.RetryAfter <= long/2 || b.RetryAfter > long || s.virtual && b.RetryAfter != long {
						s.Fatalf("retry after %s of a lease of %s", b.RetryAfter, long)
					}
				}
			})
		}},
		{name: "I3/a completed record is replayed", run: func(s *keys) {
			r := s.settled(completed("the result"))
			s.unchanged(r.ID, func() {
				for range 3 {
					b := s.begin(replaySafe(r.ID), idempotency.Replay)
					s.same(r, b.Record)
					if !b.Record.HasResult || string(b.Record.Result) != "the result" {
						s.Fatalf("replayed %v %q", b.Record.HasResult, b.Record.Result)
					}
				}
			})
		}},
		{name: "I3/a failed record is refused with its failure", run: func(s *keys) {
			r := s.settled(failed("insufficient funds"))
			s.unchanged(r.ID, func() {
				b := s.begin(replaySafe(r.ID), idempotency.Refuse)
				s.same(r, b.Record)
				noDiff(s, "failure", cmp.Diff(&idempotency.Failure{Type: "t", Message: "insufficient funds"}, b.Record.Failure))
			})
		}},
		{name: "I3/a released record is claimed anew, and attempts continue", run: func(s *keys) {
			req := request(newKey())
			first := s.begin(req, idempotency.Run).Record
			for attempts := 2; attempts <= 4; attempts++ {
				before := s.got(req.ID)
				s.must(s.Settle(s.ctx, before.Claim(), released()), nil)
				next := request(req.ID)
				next.PolicyHash = "another"
				b := s.begin(next, idempotency.Run)
				want := idempotency.Record{
					ID: req.ID, Fingerprint: "f", State: idempotency.InFlight, Owner: next.Owner, Fence: before.Fence + 1, Attempts: attempts,
					Lease: b.Record.Lease, PolicyHash: "another", Created: first.Created,
				}
				s.same(want, b.Record)
				s.same(want, s.got(req.ID))
			}
		}},
		{name: "I3/another fingerprint is a mismatch whatever the state", run: func(s *keys) {
			live := s.claim(request(newKey())).ID
			for state, id := range map[string]idempotency.ID{
				"in flight": live, "lapsed": s.lapsed().ID, "completed": s.settled(completed("r")).ID, "failed": s.settled(failed("e")).ID,
				"released": s.settled(released()).ID, "unknown": s.unknown().ID,
			} {
				s.unchanged(id, func() {
					for _, fingerprint := range []string{"", "F", "f "} {
						req := replaySafe(id)
						req.Fingerprint = fingerprint
						if b, err := s.Begin(s.ctx, req); err != nil || b.Verdict != idempotency.Mismatch {
							s.Fatalf("%s: %s, %v; want a mismatch", state, b.Verdict, err)
						}
					}
				})
			}
		}},
		{name: "I3/an expired record is claimed as if it were absent, also for another request", run: func(s *keys) {
			for _, settlement := range settlements() {
				settlement.TTL = s.short
				old := s.settled(settlement)
				s.lapse(s.short)
				req := request(old.ID)
				req.Fingerprint = "another"
				r := s.begin(req, idempotency.Run).Record
				want := idempotency.Record{
					ID: old.ID, Fingerprint: "another", State: idempotency.InFlight, Owner: req.Owner, Fence: r.Fence, Attempts: 1, Lease: r.Lease,
					PolicyHash: "p", Created: r.Created,
				}
				s.same(want, r)
				s.same(want, s.got(old.ID))
				if !r.Created.After(old.Created) || r.Fence <= old.Fence {
					s.Fatalf("claimed %+v after %+v", r, old)
				}
				s.unchanged(old.ID, func() { s.must(s.Settle(s.ctx, old.Claim(), completed("late")), idempotency.ErrFenced) })
			}
		}},
		{name: "I2/the fence of a key grows although its record was removed", run: func(s *keys) {
			old := s.claim(request(newKey()))
			s.must(s.Settle(s.ctx, old, idempotency.Settlement{State: idempotency.Completed, TTL: s.short}), nil)
			s.lapse(s.short)
			for n := 1; n > 0; {
				var err error
				n, err = s.Expire(s.ctx, 100)
				s.ok(err)
			}
			if c := s.claim(request(old.ID)); c.Fence <= old.Fence {
				s.Errorf("fence %d after %d", c.Fence, old.Fence)
			}
		}},
		{name: "I6/a begin whose context has ended writes nothing", run: func(s *keys) {
			ctx, cancel := context.WithCancel(s.ctx)
			cancel()
			req := request(newKey())
			if b, err := s.Begin(ctx, req); !errors.Is(err, context.Canceled) {
				s.Fatalf("Begin: %+v, %v; want context.Canceled", b, err)
			}
			s.absent(req.ID)
		}},
		{name: "I2/keys, operations and tenants are independent", run: func(s *keys) {
			unique := newKey().Key
			ids := []idempotency.ID{
				{Key: unique}, {Operation: unique, Key: unique}, {Tenant: unique, Key: unique}, {Tenant: unique, Operation: unique, Key: unique},
				{Operation: unique + "a", Key: "b"}, {Operation: unique, Key: "ab"}, {Tenant: "a", Operation: "b", Key: unique + "c"},
			}
			for _, between := range []string{".", "/", ":", "-", "_", "|", ",", " ", "\\", "%", "=", "\"", "'", "*", ">", "a.b", "日本"} {
				ids = append(ids,
					idempotency.ID{Tenant: unique + between, Operation: "x", Key: "k"},
					idempotency.ID{Tenant: unique, Operation: between + "x", Key: "k"},
					idempotency.ID{Tenant: unique, Operation: "x" + between, Key: "k"},
					idempotency.ID{Tenant: unique, Operation: "x", Key: between + "k"},
					idempotency.ID{Tenant: unique + between + "x", Key: "k"},
					idempotency.ID{Tenant: unique, Key: "x" + between + "k"},
					idempotency.ID{Operation: unique + between + "x", Key: "k"},
				)
			}
			for _, id := range ids {
				s.claim(request(id))
			}
			for _, id := range ids {
				if r := s.got(id); r.ID != id || r.Attempts != 1 {
					s.Fatalf("%#v holds %+v", id, r)
				}
			}
		}},
	}
}
