package storetest

import (
	"time"

	"github.com/tenetdev/tenet/idempotency"
)

// settleCases checks who may settle, and what is written.
func settleCases() []keysCase {
	return []keysCase{
		{name: "I5/a settlement is written as it is", run: func(s *keys) {
			for _, settlement := range settlements() {
				c := s.claim(request(newKey()))
				was, before := s.got(c.ID), s.clock()
				s.must(s.Settle(s.ctx, c, settlement), nil)
				after, got := s.clock(), s.got(c.ID)
				want := was
				want.State, want.Lease, want.HasResult, want.Result = settlement.State, time.Time{}, settlement.HasResult, settlement.Result
				want.Failure, want.Completed = settlement.Failure, got.Completed
				want.Expires = got.Completed.Add(settlement.TTL)
				s.same(want, got)
				if got.Completed.Before(before) || got.Completed.After(after) {
					s.Fatalf("settled between %v and %v, says %v", before, after, got.Completed)
				}
			}
		}},
		{name: "I5/a settlement of that kind may be repeated, and changes nothing", run: func(s *keys) {
			for _, settlement := range settlements() {
				r := s.settled(settlement)
				s.lapse(s.short / 10)
				again := settlement
				again.HasResult, again.Result, again.TTL = true, []byte("another"), 2*long
				s.unchanged(r.ID, func() {
					s.must(s.Settle(s.ctx, r.Claim(), settlement), nil)
					s.must(s.Settle(s.ctx, r.Claim(), again), nil)
				})
			}
		}},
		{name: "I5/what is settled cannot be settled otherwise or renewed", run: func(s *keys) {
			for _, first := range settlements() {
				r := s.settled(first)
				s.unchanged(r.ID, func() {
					for _, other := range settlements() {
						if other.State != first.State {
							s.must(s.Settle(s.ctx, r.Claim(), other), idempotency.ErrFenced)
						}
					}
					s.must(s.Renew(s.ctx, r.Claim(), long), idempotency.ErrFenced)
				})
			}
		}},
		{name: "I5/a stale owner is fenced and writes nothing", run: func(s *keys) {
			lapsed := s.lapsed()
			first := lapsed.Claim()
			second := s.claim(replaySafe(first.ID))
			s.stale(first)
			s.must(s.Settle(s.ctx, second, released()), nil)
			s.stale(first)
			third := s.claim(request(first.ID))
			s.stale(first)
			s.stale(second)
			s.must(s.Settle(s.ctx, third, completed("r")), nil)
			s.stale(first)
			s.stale(second)
		}},
		{name: "I5/owner, fence and the whole ID count", run: func(s *keys) {
			c := s.claim(request(newKey()))
			owner, older, newer, key, operation, tenant := c, c, c, c, c, c
			owner.Owner += "x"
			older.Fence--
			newer.Fence++
			key.Key += "x"
			operation.Operation = ""
			tenant.Tenant = ""
			for _, wrong := range []idempotency.Claim{owner, older, newer, key, operation, tenant} {
				s.unchanged(c.ID, func() { s.refused(wrong) })
			}
			s.must(s.Settle(s.ctx, c, completed("r")), nil)
		}},
		{name: "I5/an absent record is fenced, not made", run: func(s *keys) {
			c := idempotency.Claim{ID: newKey(), Owner: "nobody", Fence: 1}
			s.refused(c)
			s.absent(c.ID)
		}},
	}
}

// stale checks that a claim that is not the record's writes nothing.
func (s *keys) stale(c idempotency.Claim) {
	s.Helper()
	s.unchanged(c.ID, func() { s.refused(c) })
}

// refused checks that a claim is refused whatever it does.
func (s *keys) refused(c idempotency.Claim) {
	s.Helper()
	for _, settlement := range settlements() {
		s.must(s.Settle(s.ctx, c, settlement), idempotency.ErrFenced)
		s.must(s.Resolve(s.ctx, c, settlement), idempotency.ErrFenced)
	}
	s.must(s.Renew(s.ctx, c, long), idempotency.ErrFenced)
	s.must(s.Clear(s.ctx, c), idempotency.ErrFenced)
}
