package storetest

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest/internal/models"
)

// leaseLog records operations of many workers.
type leaseLog struct {
	start time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	errs  int
}

func (l *leaseLog) now() int64 { return time.Since(l.start).Nanoseconds() }

// add records an operation that was called at the given time and has just been answered.
func (l *leaseLog) add(worker int, call models.LeaseCall, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := models.LeaseAnswer{Err: err, At: l.now()}
	l.ops = append(l.ops, porcupine.Operation{ClientId: worker, Input: call, Call: call.At, Output: answer, Return: answer.At})
	if err != nil {
		l.errs++
	}
}

// linearizable lets workers claim, extend and settle, sometimes too late, and checks that all answers fit one order.
func linearizable(s *jobs) {
	const rounds, jobsAtOnce = 20, 4
	lease := s.contestedLease()
	s.enqueue(make([]job.Insert, jobsAtOnce)...)
	log := &leaseLog{start: time.Now()}
	s.together(func(store job.Store, worker int) {
		act := func(what string, r job.Ref) error {
			call := models.LeaseCall{What: what, ID: r.ID, Fence: r.Fence, At: log.now()}
			var errs []error
			if what == "extend" {
				errs = store.Extend(s.ctx, []job.Ref{r}, lease)
			} else {
				errs = store.Settle(s.ctx, []job.Settlement{{Ref: r, Kind: job.KindRetry}})
			}
			err := oneError(s, errs)
			log.add(worker, call, err)
			return err
		}
		for range rounds {
			_, err := store.Maintain(s.ctx, job.Maintenance{Limit: 100})
			s.report("Maintain", err)
			at := log.now()
			list, err := store.Claim(s.ctx, job.Claim{Worker: strconv.Itoa(worker), Queues: []job.Slots{{Queue: queue, Free: 1}}, Lease: lease})
			s.report("Claim", err)
			for _, r := range list {
				log.add(worker, models.LeaseCall{What: "claim", ID: r.ID, Fence: r.Fence, At: at}, nil)
				for range rand.IntN(3) {
					time.Sleep(rand.N(lease))
					_ = act("extend", r.Ref())
				}
				time.Sleep(rand.N(lease * 3 / 2))
				if act("settle", r.Ref()) == nil && rand.IntN(3) == 0 {
					time.Sleep(rand.N(lease / 2))
					_ = act("settle", r.Ref()) // again
				}
			}
			if len(list) == 0 {
				time.Sleep(rand.N(lease / 2))
			}
		}
	})
	explained(s, models.Lease(lease), log.ops)
	if log.errs == 0 {
		s.Error("no lease was lost: nothing was shown")
	}
}
