package storetest

import (
	"time"

	"github.com/tenetdev/tenet/idempotency"
)

// lapseCases checks claims whose lease has ended.
func lapseCases() []keysCase {
	return []keysCase{
		{name: "I4/a lapsed claim is taken over by an operation that is replay-safe", run: func(s *keys) {
			old := s.lapsed()
			req := replaySafe(old.ID)
			r := s.begin(req, idempotency.Run).Record
			want := idempotency.Record{
				ID: old.ID, Fingerprint: "f", State: idempotency.InFlight, Owner: req.Owner, Fence: old.Fence + 1, Attempts: 2, Lease: r.Lease,
				PolicyHash: "p", Created: old.Created,
			}
			s.same(want, r)
			s.same(want, s.got(old.ID))
			if !r.Lease.After(old.Lease) {
				s.Fatalf("the lease ended at %v before, and ends at %v", old.Lease, r.Lease)
			}
			s.begin(replaySafe(old.ID), idempotency.Busy)
		}},
		{name: "I4/the outcome of another lapsed claim is unknown, and stays so", run: func(s *keys) {
			old := s.lapsed()
			want := old
			want.State, want.Lease = idempotency.Unknown, time.Time{}
			s.same(want, s.begin(request(old.ID), idempotency.Undecidable).Record)
			s.same(want, s.got(old.ID))
			for _, req := range []idempotency.BeginRequest{request(old.ID), replaySafe(old.ID)} {
				s.same(want, s.begin(req, idempotency.Undecidable).Record)
			}
			s.same(want, s.got(old.ID))
		}},
		{name: "I4/a record in flight or unknown never expires", run: func(s *keys) {
			lapsed, unknown := s.lapsed(), s.unknown()
			wait := 3 * s.short
			if s.virtual {
				wait = 10 * 365 * 24 * time.Hour
			}
			s.lapse(wait)
			s.must(errorOf(s.Expire(s.ctx, 1000)), nil)
			s.same(lapsed, s.got(lapsed.ID))
			s.same(unknown, s.got(unknown.ID))
			s.begin(request(lapsed.ID), idempotency.Undecidable)
			s.begin(request(unknown.ID), idempotency.Undecidable)
		}},
		{name: "I4/a lease ends at its time, for those who take over", run: func(s *keys) {
			s.edges(func() (time.Time, func() bool) {
				c := s.claim(s.shortLease(newKey()))
				return s.got(c.ID).Lease, func() bool {
					b, err := s.Begin(s.ctx, replaySafe(c.ID))
					s.must(err, nil)
					return b.Verdict == idempotency.Run
				}
			})
		}},
		{name: "I4/a lease ends at its time, for those who may not", run: func(s *keys) {
			s.edges(func() (time.Time, func() bool) {
				c := s.claim(s.shortLease(newKey()))
				return s.got(c.ID).Lease, func() bool {
					b, err := s.Begin(s.ctx, request(c.ID))
					s.must(err, nil)
					return b.Verdict == idempotency.Undecidable
				}
			})
		}},
		{name: "I5/a renewal sets the end of the lease to exactly now and its length", run: func(s *keys) {
			c := s.claim(request(newKey()))
			old := s.got(c.ID)
			for _, lease := range []time.Duration{2 * long, long / 2} {
				s.lapse(s.short / 10)
				before := s.clock()
				s.must(s.Renew(s.ctx, c, lease), nil)
				after := s.clock()
				want, got := old, s.got(c.ID)
				want.Lease = got.Lease
				s.same(want, got)
				if got.Lease.Before(before.Add(lease)) || got.Lease.After(after.Add(lease)) {
					s.Fatalf("a renewal of %s between %v and %v ends at %v", lease, before, after, got.Lease)
				}
			}
		}},
		{name: "I5/a renewed claim is live beyond its first lease", run: func(s *keys) {
			c := s.claim(s.shortLease(newKey()))
			s.must(s.Renew(s.ctx, c, long), nil)
			s.lapse(s.short)
			s.begin(replaySafe(c.ID), idempotency.Busy)
			s.begin(request(c.ID), idempotency.Busy)
			s.must(s.Settle(s.ctx, c, completed("r")), nil)
		}},
		{name: "I5/a lapsed claim may be renewed and settled until another begin", run: func(s *keys) {
			r := s.lapsed()
			s.must(s.Renew(s.ctx, r.Claim(), long), nil)
			s.begin(replaySafe(r.ID), idempotency.Busy)
			for _, settlement := range settlements() {
				r := s.lapsed()
				s.must(s.Settle(s.ctx, r.Claim(), settlement), nil)
				same(s, "the state of the record", s.got(r.ID).State, settlement.State)
			}
		}},
		{name: "I5/the owner may settle an unknown record, but not renew it", run: func(s *keys) {
			for _, settlement := range settlements() {
				r := s.unknown()
				s.unchanged(r.ID, func() { s.must(s.Renew(s.ctx, r.Claim(), long), idempotency.ErrFenced) })
				s.must(s.Settle(s.ctx, r.Claim(), settlement), nil)
				same(s, "the state of the record", s.got(r.ID).State, settlement.State)
			}
		}},
	}
}
