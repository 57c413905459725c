package storetest

import (
	"bytes"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenetdev/tenet/idempotency"
)

// keyValueCases checks that what is stored comes back as it was, and shares nothing with its caller.
func keyValueCases() []keysCase {
	return []keysCase{
		{name: "I5/null, 0, empty and false are results, and none is none", run: func(s *keys) {
			for _, c := range []struct {
				present bool
				result  []byte
			}{
				{false, nil}, {true, nil}, {true, []byte{}}, {true, []byte("null")}, {true, []byte("0")}, {true, []byte(`""`)}, {true, []byte("false")},
				{true, []byte{0}}, {true, []byte(" \n")}, {true, allBytes()}, {true, bytes.Repeat([]byte("0123456789abcdef"), 16<<10)},
			} {
				r := s.settled(idempotency.Settlement{State: idempotency.Completed, HasResult: c.present, Result: c.result, TTL: long})
				b := s.begin(request(r.ID), idempotency.Replay)
				for _, got := range []idempotency.Record{r, b.Record} {
					if got.HasResult != c.present || !bytes.Equal(got.Result, c.result) {
						s.Fatalf("a result of %d bytes (present: %v) came back with %d bytes (present: %v)", len(c.result), c.present, len(got.Result), got.HasResult)
					}
				}
			}
		}},
		{name: "I2/a completed record may carry a failure, and a failed one a result", run: func(s *keys) {
			for _, state := range []idempotency.State{idempotency.Completed, idempotency.Failed, idempotency.Released} {
				settlement := idempotency.Settlement{
					State: state, HasResult: true, Result: []byte("r"), Failure: &idempotency.Failure{Type: "", Message: "m"}, TTL: long,
				}
				r := s.settled(settlement)
				if !r.HasResult || string(r.Result) != "r" || r.Failure == nil || *r.Failure != *settlement.Failure {
					s.Fatalf("settled %+v, stored %+v", settlement, r)
				}
				if r := s.settled(idempotency.Settlement{State: state, TTL: long}); r.HasResult || len(r.Result) > 0 || r.Failure != nil {
					s.Fatalf("settled with nothing, stored %+v", r)
				}
			}
		}},
		{name: "I2/a record comes back as it was stored, whatever its strings", run: func(s *keys) {
			for _, odd := range []string{
				strings.Repeat("k", 255), strings.Repeat("日", 85), "ünïcode ☂ \U0001F600", `'"\`, "<&>\u2028", `{"a":[1,null]}`, "%s$1?:x", "*.>", "..", "$KV", " ", "=",
			} {
				unique := newKey().Key
				id := idempotency.ID{Tenant: odd, Operation: odd, Key: odd}
				if len(odd)+len(unique) < 255 {
					id.Tenant += unique
				} else {
					id.Tenant = unique
				}
				req := request(id)
				req.Fingerprint, req.Owner, req.PolicyHash, req.Lease = odd, odd+req.Owner, odd, 1500001*time.Microsecond
				r := s.begin(req, idempotency.Run).Record
				want := idempotency.Record{
					ID: id, Fingerprint: odd, State: idempotency.InFlight, Owner: req.Owner, Fence: r.Fence, Attempts: 1, Lease: r.Created.Add(req.Lease),
					PolicyHash: odd, Created: r.Created,
				}
				s.same(want, r)
				s.must(s.Settle(s.ctx, r.Claim(), idempotency.Settlement{
					State: idempotency.Failed, Failure: &idempotency.Failure{Type: odd, Message: odd + "\n\t\u0001"}, TTL: 400 * 24 * time.Hour,
				}), nil)
				got := s.got(id)
				want.State, want.Lease, want.Failure = idempotency.Failed, time.Time{}, &idempotency.Failure{Type: odd, Message: odd + "\n\t\u0001"}
				want.Completed, want.Expires = got.Completed, got.Completed.Add(400*24*time.Hour)
				s.same(want, got)
			}
		}},
		{name: "I6/what is handed out and in is a copy", run: func(s *keys) {
			c := s.claim(request(newKey()))
			result, failure := []byte("result"), &idempotency.Failure{Type: "t", Message: "m"}
			s.must(s.Settle(s.ctx, c, idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: result, Failure: failure, TTL: long}), nil)
			spoil := func(b []byte, f *idempotency.Failure) {
				copy(b, "spoilt")
				f.Message = "spoilt"
			}
			spoil(result, failure)
			for range 2 {
				got, begun := s.got(c.ID), s.begin(request(c.ID), idempotency.Replay).Record
				for _, r := range []idempotency.Record{got, begun} {
					if string(r.Result) != "result" || r.Failure.Message != "m" {
						s.Fatalf("the record holds %q and %q", r.Result, r.Failure.Message)
					}
				}
				spoil(got.Result, got.Failure)
				spoil(begun.Result, begun.Failure)
			}
			mismatch := request(c.ID)
			mismatch.Fingerprint = "another"
			r := s.begin(mismatch, idempotency.Mismatch).Record
			spoil(r.Result, r.Failure)
			same(s, "the result", string(s.got(c.ID).Result), "result")
			u := s.unknown()
			result = []byte("result")
			s.must(s.Resolve(s.ctx, u.Claim(), idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: result, TTL: long}), nil)
			copy(result, "spoilt")
			same(s, "the result", string(s.got(u.ID).Result), "result")
		}},
	}
}

// expiryCases checks when records are over.
func expiryCases() []keysCase {
	return []keysCase{
		{name: "I6/a record expires at its time, for a begin", run: func(s *keys) {
			for _, settlement := range settlements()[:2] { // what is released is claimed before its expiry, too
				settlement.TTL = s.short
				s.edges(func() (time.Time, func() bool) {
					r := s.settled(settlement)
					return r.Expires, func() bool {
						b, err := s.Begin(s.ctx, request(r.ID))
						s.must(err, nil)
						return b.Verdict == idempotency.Run
					}
				})
			}
		}},
		{name: "I6/a released record's attempts are over at its expiry", run: func(s *keys) {
			settlement := released()
			settlement.TTL = s.short
			r := s.settled(settlement)
			s.lapse(s.short)
			same(s, "attempts", s.begin(request(r.ID), idempotency.Run).Record.Attempts, 1)
		}},
		{name: "I6/a record expires at its time, for a reader", run: func(s *keys) {
			for _, settlement := range settlements() {
				settlement.TTL = s.short
				s.edges(func() (time.Time, func() bool) {
					r := s.settled(settlement)
					return r.Expires, func() bool {
						_, err := s.Get(s.ctx, r.ID)
						if err != nil {
							s.must(err, idempotency.ErrNotFound)
						}
						return err != nil
					}
				})
			}
		}},
		{name: "I6/expiry does not wait for the sweeper, and the sweeper leaves the rest alone", run: func(s *keys) {
			short := completed("short")
			short.TTL = s.short
			var expired []idempotency.ID
			for range 5 {
				expired = append(expired, s.settled(short).ID)
			}
			kept := []idempotency.Record{s.settled(completed("long")), s.settled(failed("long")), s.settled(released()), s.unknown(), s.lapsed()}
			s.lapse(s.short)
			for _, id := range expired {
				s.absent(id)
			}
			reused := s.claim(request(expired[0]))
			for range 1000 {
				n, err := s.Expire(s.ctx, 2)
				s.must(err, nil)
				if n > 2 {
					s.Fatalf("removed %d of at most 2", n)
				}
				if n == 0 {
					break
				}
			}
			for _, r := range kept {
				s.same(r, s.got(r.ID))
			}
			for _, id := range expired[1:] {
				s.absent(id)
				s.claim(request(id))
			}
			s.must(s.Settle(s.ctx, reused, completed("r")), nil)
		}},
	}
}

// resolveCases checks what operators may do.
func resolveCases() []keysCase {
	return []keysCase{
		{name: "I4/an operator resolves what is unknown or lapsed, and its owner comes too late", run: func(s *keys) {
			for _, make := range []func() idempotency.Record{s.unknown, s.lapsed} {
				for _, settlement := range settlements() {
					old := make()
					s.must(s.Resolve(s.ctx, old.Claim(), settlement), nil)
					got := s.got(old.ID)
					want := old
					want.State, want.Lease, want.HasResult, want.Result = settlement.State, time.Time{}, settlement.HasResult, settlement.Result
					want.Failure, want.Fence, want.Completed = settlement.Failure, got.Fence, got.Completed
					want.Expires = got.Completed.Add(settlement.TTL)
					s.same(want, got)
					if got.Fence <= old.Fence || got.Completed.Before(old.Created) {
						s.Fatalf("resolved %+v to %+v", old, got)
					}
					s.stale(old.Claim())
					b, err := s.Begin(s.ctx, request(old.ID))
					want2 := map[idempotency.State]idempotency.Verdict{
						idempotency.Completed: idempotency.Replay, idempotency.Failed: idempotency.Refuse, idempotency.Released: idempotency.Run,
					}[settlement.State]
					if err != nil || b.Verdict != want2 {
						s.Fatalf("begin after %s: %s, %v", settlement.State, b.Verdict, err)
					}
				}
			}
		}},
		{name: "I4/an operator's failure is stored as text that every store can keep", run: func(s *keys) {
			old := s.unknown()
			odd := idempotency.Failure{Type: "t\x00", Message: "\xff" + strings.Repeat("ä", 16<<10)}
			s.must(s.Resolve(s.ctx, old.Claim(), idempotency.Settlement{State: idempotency.Failed, Failure: &odd, TTL: long}), nil)
			if f := s.got(old.ID).Failure; f.Type != "t\uFFFD" || !strings.HasPrefix(f.Message, "\uFFFDä") || len(f.Message) > 16<<10 || !utf8.ValidString(f.Message) {
				s.Errorf("%q, %d bytes", f.Type, len(f.Message))
			}
		}},
		{name: "I4/a live claim or a settled record cannot be resolved", run: func(s *keys) {
			live := s.got(s.claim(request(newKey())).ID)
			for _, r := range []idempotency.Record{live, s.settled(completed("r")), s.settled(failed("e")), s.settled(released())} {
				s.unchanged(r.ID, func() {
					for _, settlement := range settlements() {
						s.must(s.Resolve(s.ctx, r.Claim(), settlement), idempotency.ErrFenced)
					}
				})
			}
		}},
		{name: "I5/a resolution counts against the claim that was seen", run: func(s *keys) {
			seen := s.lapsed()
			taken := s.claim(replaySafe(seen.ID))
			s.stale(seen.Claim())
			s.must(s.Settle(s.ctx, taken, completed("r")), nil)
			s.stale(seen.Claim())
		}},
		{name: "I5/a record is cleared if its claim is not live", run: func(s *keys) {
			for _, r := range []idempotency.Record{
				s.settled(completed("r")), s.settled(failed("e")), s.settled(released()), s.unknown(), s.lapsed(),
			} {
				wrong := r.Claim()
				wrong.Fence++
				s.stale(wrong)
				s.must(s.Clear(s.ctx, r.Claim()), nil)
				s.absent(r.ID)
				s.must(s.Clear(s.ctx, r.Claim()), idempotency.ErrFenced)
				same(s, "attempts", s.begin(request(r.ID), idempotency.Run).Record.Attempts, 1)
				s.stale(r.Claim())
			}
		}},
		{name: "I5/a live claim is not cleared", run: func(s *keys) {
			c := s.claim(request(newKey()))
			s.unchanged(c.ID, func() { s.must(s.Clear(s.ctx, c), idempotency.ErrFenced) })
			s.must(s.Settle(s.ctx, c, completed("r")), nil)
		}},
		{name: "I4/a claim can be resolved and cleared once its lease has ended, and not before", run: func(s *keys) {
			for _, act := range []func(idempotency.Claim) error{
				func(c idempotency.Claim) error { return s.Resolve(s.ctx, c, completed("r")) },
				func(c idempotency.Claim) error { return s.Clear(s.ctx, c) },
			} {
				s.edges(func() (time.Time, func() bool) {
					c := s.claim(s.shortLease(newKey()))
					return s.got(c.ID).Lease, func() bool {
						err := act(c)
						if err != nil && !errors.Is(err, idempotency.ErrFenced) {
							s.Fatal(err)
						}
						return err == nil
					}
				})
			}
		}},
	}
}
