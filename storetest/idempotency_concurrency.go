package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/idempotency"
)

// keyConcurrencyCases checks concurrent callers, in real time.
func keyConcurrencyCases() []keysCase {
	const callers = 100
	return []keysCase{
		{name: "I8/of 100 begins at once one runs", real: true, run: func(s *keys) {
			s.inRealTime()
			for what, start := range map[string]func() idempotency.ID{
				"absent": newKey, "released": func() idempotency.ID { return s.settled(released()).ID },
				"lapsed": func() idempotency.ID { return s.lapsed().ID },
			} {
				id := start()
				var mu sync.Mutex
				verdicts, claims := map[idempotency.Verdict]int{}, []idempotency.Claim{}
				s.together(callers, func(store idempotency.Store, _ int) {
					b, err := store.Begin(s.ctx, replaySafe(id))
					if err != nil {
						s.Errorf("Begin: %v", err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					verdicts[b.Verdict]++
					if b.Verdict == idempotency.Run {
						claims = append(claims, b.Record.Claim())
					}
				})
				if verdicts[idempotency.Run] != 1 || verdicts[idempotency.Busy] != callers-1 {
					s.Fatalf("%s: verdicts %v", what, verdicts)
				}
				s.must(s.Settle(s.ctx, claims[0], completed(what)), nil)
				s.together(callers, func(store idempotency.Store, _ int) {
					if b, err := store.Begin(s.ctx, request(id)); err != nil || b.Verdict != idempotency.Replay || string(b.Record.Result) != what {
						s.Errorf("%s: %s %q, %v", what, b.Verdict, b.Record.Result, err)
					}
				})
			}
		}},
		{name: "I4/of 100 begins at once on a lapsed claim none runs if replays are not safe", real: true, run: func(s *keys) {
			s.inRealTime()
			id := s.lapsed().ID
			s.together(callers, func(store idempotency.Store, _ int) {
				if b, err := store.Begin(s.ctx, request(id)); err != nil || b.Verdict != idempotency.Undecidable {
					s.Errorf("%s, %v", b.Verdict, err)
				}
			})
		}},
		{name: "I5/of settlements at once one is written", real: true, run: func(s *keys) {
			s.inRealTime()
			for range 20 {
				c := s.claim(request(newKey()))
				ways := settlements()
				var wins [3]atomic.Int64
				s.together(2*len(ways), func(store idempotency.Store, i int) {
					way := i % len(ways)
					switch err := store.Settle(s.ctx, c, ways[way]); {
					case err == nil:
						wins[way].Add(1)
					case !errors.Is(err, idempotency.ErrFenced):
						s.Errorf("Settle: %v", err)
					}
				})
				got := s.got(c.ID)
				for i, way := range ways {
					if want := map[bool]int64{true: 2, false: 0}[got.State == way.State]; wins[i].Load() != want {
						s.Fatalf("the record is %s; %d settlements as %s were accepted, want %d", got.State, wins[i].Load(), way.State, want)
					}
				}
			}
		}},
		{name: "I5/of an owner, an heir and an operator one wins", real: true, run: func(s *keys) {
			s.inRealTime()
			for range 10 {
				lapsed := s.lapsed()
				var settled, taken, resolved, cleared atomic.Int64
				count := func(n *atomic.Int64, err error) { s.count(n, err, idempotency.ErrFenced) }
				s.together(8, func(store idempotency.Store, i int) {
					switch i % 4 {
					case 0:
						count(&settled, store.Settle(s.ctx, lapsed.Claim(), failed("owner")))
					case 1:
						if b, err := store.Begin(s.ctx, replaySafe(lapsed.ID)); err != nil {
							s.Error(err)
						} else if b.Verdict == idempotency.Run {
							taken.Add(1)
						}
					case 2:
						count(&resolved, store.(idempotency.Admin).Resolve(s.ctx, lapsed.Claim(), completed("operator")))
					case 3:
						count(&cleared, store.(idempotency.Admin).Clear(s.ctx, lapsed.Claim()))
					}
				})
				// The owner may repeat itself, and what it has settled may be cleared; what was cleared may be claimed.
				if settled.Load() == 0 && taken.Load()+resolved.Load()+cleared.Load() == 0 {
					s.Fatal("nobody won")
				}
				if resolved.Load() > 1 || cleared.Load() > 1 || taken.Load() > 1 || resolved.Load() > 0 && settled.Load()+cleared.Load()+taken.Load() > 0 {
					s.Fatalf("%d settled, %d taken over, %d resolved, %d cleared", settled.Load(), taken.Load(), resolved.Load(), cleared.Load())
				}
			}
		}},
		{name: "I3/begin and settle are linearizable", real: true, run: linearizableKeys},
	}
}

// realShort is the lease of cases in real time of a store that otherwise runs in virtual time.
const realShort = 100 * time.Millisecond

// inRealTime sets a short lease for a case that runs in real time although the suite runs in virtual time.
func (s *keys) inRealTime() {
	if s.bubble != nil {
		s.short = realShort
	}
}
