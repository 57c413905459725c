package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/job"
)

// concurrent is how many workers a case of real concurrency has.
const concurrent = 8

// concurrencyCases checks what must hold when workers meet. They run in real time.
func concurrencyCases() []jobsCase {
	return []jobsCase{
		{name: "J1/workers that claim at once share no job", real: true, run: func(s *jobs) {
			const n = 400
			s.enqueue(make([]job.Insert, n)...)
			var mu sync.Mutex
			claims := map[string]int{}
			var total atomic.Int64
			deadline := time.Now().Add(time.Minute)
			s.together(func(store job.Store, worker int) {
				for total.Load() < n && time.Now().Before(deadline) {
					list, err := store.Claim(s.ctx, job.Claim{Worker: strconv.Itoa(worker), Queues: []job.Slots{{Queue: queue, Free: 1 + worker}}, Lease: long})
					if err != nil {
						s.Errorf("Claim: %v", err)
						return
					}
					total.Add(int64(len(list)))
					mu.Lock()
					for _, r := range list {
						claims[r.ID]++
					}
					mu.Unlock()
				}
			})
			for id, times := range claims {
				if times != 1 {
					s.Errorf("%s was claimed %d times", id, times)
				}
			}
			same(s, "jobs claimed", len(claims), n)
		}},
		{name: "J9/of jobs with one key that are enqueued at once one is stored", real: true, run: func(s *jobs) {
			const keys = 20
			var mu sync.Mutex
			stored, receipts := map[int]int{}, map[int]map[string]bool{}
			s.together(func(store job.Store, worker int) {
				for i := range keys {
					got, err := store.Enqueue(s.ctx, []job.Insert{
						{ID: newID(), Type: "t", Queue: queue}, {ID: newID(), Type: "t", Queue: queue, UniqueKey: strconv.Itoa(i)},
					})
					if err != nil {
						s.Errorf("Enqueue by %d: %v", worker, err)
						return
					}
					mu.Lock()
					if receipts[i] == nil {
						receipts[i] = map[string]bool{}
					}
					receipts[i][got[1].ID] = true
					if !got[1].Existed {
						stored[i]++
					}
					mu.Unlock()
				}
			})
			for i := range keys {
				if stored[i] != 1 || len(receipts[i]) != 1 {
					s.Errorf("key %d: stored %d times, receipts %v", i, stored[i], receipts[i])
				}
			}
			s.stored(keys * (concurrent + 1))
		}},
		{name: "J7/of settlements of one lease at once one is written", real: true, run: func(s *jobs) {
			ways := []job.Kind{
				job.KindComplete, job.KindRetry, job.KindDead, job.KindRelease, job.KindSnooze, job.KindCancel, job.KindComplete, job.KindRetry,
			}
			for range sized(20, 8) {
				r := s.start(job.Insert{}, long)
				var mu sync.Mutex
				won := map[job.Kind]bool{}
				s.together(func(store job.Store, worker int) {
					errs := store.Settle(s.ctx, []job.Settlement{{Ref: r.Ref(), Kind: ways[worker], Delay: long}})
					if errs == nil || errs[0] == nil {
						mu.Lock()
						won[ways[worker]] = true
						mu.Unlock()
					} else if !errors.Is(errs[0], job.ErrNotRunning) {
						s.Errorf("%s: %v", ways[worker], errs[0])
					}
				})
				if _, history := s.job(r.ID); len(won) != 1 || len(history) != 1 || !won[history[0].Kind] {
					s.Fatalf("%v were written, history %+v", won, history)
				}
				s.change(job.ActionCancel, job.Filter{IDs: []string{r.ID}}, 1)
			}
		}},
		{name: "J1/nothing is lost while everything happens at once", real: true, run: func(s *jobs) {
			lease := s.contestedLease()
			var settled, lost atomic.Int64
			s.together(func(store job.Store, worker int) {
				admin := store.(job.Admin)
				for i := range sized(40, 20) {
					_, err := store.Enqueue(s.ctx, []job.Insert{{ID: newID(), Type: "t", Queue: queue, Priority: i % 3, UniqueKey: fmt.Sprint(worker, i/2)}})
					s.report("Enqueue", err)
					list, err := store.Claim(s.ctx, job.Claim{Worker: strconv.Itoa(worker), Queues: []job.Slots{{Queue: queue, Free: 3}}, Lease: lease})
					s.report("Claim", err)
					if i%10 == 0 {
						time.Sleep(lease * 3 / 2)
					}
					for _, r := range list {
						errs := store.Settle(s.ctx, []job.Settlement{{Ref: r.Ref(), Kind: kinds()[rand.IntN(len(kinds()))], Error: "e"}})
						if err := oneError(s, errs); err == nil || errors.Is(err, job.ErrCancelRequested) {
							settled.Add(1)
							continue
						}
						lost.Add(1)
						s.report("Settle", errs[0], job.ErrNotRunning, job.ErrLeaseExpired, job.ErrFenced)
					}
					_, err = store.Maintain(s.ctx, job.Maintenance{Limit: 5})
					s.report("Maintain", err)
					if i%8 == worker {
						_, err = admin.Change(s.ctx, job.ActionCancel, job.Filter{Queue: queue}, 1)
						s.report("Change", err)
					}
				}
			})
			if settled.Load() == 0 || lost.Load() == 0 {
				s.Errorf("%d settled, %d lost: the case needs both", settled.Load(), lost.Load())
			}
		}},
		{name: "J7/leases are linearizable", real: true, run: linearizable},
	}
}

// together runs f on many goroutines at once and waits for them. Where there is a second handle, half of them use it.
func (s *jobs) together(f func(store job.Store, worker int)) {
	s.Helper()
	stores := []job.Store{s.Store, s.Store}
	if s.options.Second != nil {
		stores[1] = s.options.Second(s.T, s.Store)
		defer func() { s.must(stores[1].Close(), nil) }()
	}
	atOnce(concurrent, func(worker int) { f(stores[worker%2], worker) })
}
