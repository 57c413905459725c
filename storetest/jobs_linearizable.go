package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenetdev/tenet/job"
)

// leaseCall is an operation on the lease of a job, for the checker. Times are nanoseconds since the start of the case.
type leaseCall struct {
	what  string // claim, settle, extend
	id    string
	fence int64
	at    int64
}

// leaseAnswer is the result of a leaseCall.
type leaseAnswer struct {
	err error
	at  int64
}

// leaseState is the checker's knowledge of a job. The lease ends somewhere between two times, because only the store knows
// when between call and answer it was granted. The history does not contain reclaiming by Maintain.
type leaseState struct {
	fence            int64
	running          bool
	earliest, latest int64
	settled          [8]uint64 // tokens, as a set
}

func (l leaseState) has(fence int64) bool { return l.settled[fence/64]>>(fence%64)&1 == 1 }

// slack covers the truncation of stored times.
const slack = int64(time.Millisecond)

// leaseModel defines the answers that a store may give. A claim is legal only if no lease can be live. A token is valid only
// while its lease may be live and no newer one was granted, and may repeat its settlement.
func leaseModel(lease time.Duration) porcupine.Model {
	return porcupine.Model{
		Partition: partition(func(input any) string { return input.(leaseCall).id }),
		Init:      func() any { return leaseState{} },
		Step: func(state, input, output any) (bool, any) {
			return leaseStep(state.(leaseState), input.(leaseCall), output.(leaseAnswer), int64(lease))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
}

func leaseStep(l leaseState, call leaseCall, answer leaseAnswer, lease int64) (bool, leaseState) {
	mayLive := l.running && call.at < l.latest
	mayBeOver := l.running && answer.at >= l.earliest
	leased := l
	leased.running, leased.fence, leased.earliest, leased.latest = true, call.fence, call.at+lease-slack, answer.at+lease+slack
	over := l
	over.running = false
	switch {
	case call.what == "claim":
		return call.fence == l.fence+1 && (!l.running || mayBeOver), leased
	case call.what == "settle" && l.has(call.fence):
		return answer.err == nil, l
	case errors.Is(answer.err, job.ErrNotRunning):
		return !l.running || mayBeOver, over
	case errors.Is(answer.err, job.ErrLeaseExpired):
		return mayBeOver, l
	case errors.Is(answer.err, job.ErrFenced):
		return mayLive && call.fence != l.fence, l
	case answer.err != nil || !mayLive || call.fence != l.fence:
		return false, l
	case call.what == "extend":
		return true, leased
	}
	over.settled[call.fence/64] |= 1 << (call.fence % 64)
	return true, over
}

// leaseLog records operations of many workers.
type leaseLog struct {
	start time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	errs  int
}

func (l *leaseLog) now() int64 { return time.Since(l.start).Nanoseconds() }

// add records an operation that was called at the given time and has just been answered.
func (l *leaseLog) add(worker int, call leaseCall, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := leaseAnswer{err: err, at: l.now()}
	l.ops = append(l.ops, porcupine.Operation{ClientId: worker, Input: call, Call: call.at, Output: answer, Return: answer.at})
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
			call := leaseCall{what: what, id: r.ID, fence: r.Fence, at: log.now()}
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
				log.add(worker, leaseCall{what: "claim", id: r.ID, fence: r.Fence, at: at}, nil)
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
	explained(s, leaseModel(lease), log.ops)
	if log.errs == 0 {
		s.Error("no lease was lost: nothing was shown")
	}
}
