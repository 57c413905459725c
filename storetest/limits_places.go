package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/limit"
	"github.com/tenetdev/tenet/policy"
)

func sharedPlaceCases() []limitsCase {
	return []limitsCase{
		{"B1/the attempts of all processes together hold no more places than the limit", placesInBound},
		{"B1/places follow the demand", placesFollowDemand},
		{"B1/the places of a process that dies come back", placesOfTheDead},
		{"B1/a rate bounds the starts of all processes", rateInBound},
	}
}

func placeOutages() []limitsCase {
	return []limitsCase{
		{"B2/a process keeps its places while the store is away", placesInOutage},
	}
}

func (s *limits) limiters(n int, l policy.Limit) []*limit.Limiter {
	s.Helper()
	l.Scope = policy.ScopeShared
	p, err := policy.Policy{Limit: l}.Normalize(policy.CallLimits())
	s.ok(err)
	list := make([]*limit.Limiter, n)
	for i := range list {
		list[i] = limit.NewShared(s.hub(i), "k", p.Limit)
	}
	time.Sleep(500 * time.Millisecond) // the places in advance are settled
	return list
}

// crowd enters and leaves as fast as the limit lets it, in several goroutines of each process, and returns the most attempts that
// were inside at a time and how many each process made.
func crowd(list []*limit.Limiter, d time.Duration) (most int64, made []int64) {
	var inside, highest atomic.Int64
	counts := make([]atomic.Int64, len(list))
	var all sync.WaitGroup
	end := time.Now().Add(d)
	for i, l := range list {
		for g := range 6 {
			all.Go(func() {
				for time.Now().Before(end) {
					if l.TryEnter() {
						n := inside.Add(1)
						for now := highest.Load(); n > now && !highest.CompareAndSwap(now, n); now = highest.Load() {
						}
						counts[i].Add(1)
						time.Sleep(time.Duration(g+2) * time.Millisecond)
						inside.Add(-1)
						l.Leave(limit.Ignored, 0, 0)
					}
					time.Sleep(time.Duration(i+g+1) * time.Millisecond)
				}
			})
		}
	}
	all.Wait()
	for i := range counts {
		made = append(made, counts[i].Load())
	}
	return highest.Load(), made
}

func placesInBound(s *limits) {
	list := s.limiters(4, policy.Limit{Concurrency: 7})
	most, made := crowd(list, 3*time.Second)
	if s.slow.Load() {
		s.Skip("the store did not answer within a second, so that the processes went on with their own shares")
	}
	if most > 7 {
		s.Errorf("%d attempts at a time, the limit is 7", most)
	}
	for i, n := range made {
		if n < 20 {
			s.Errorf("process %d made only %d of the attempts %v", i, n, made)
		}
	}
}

func placesFollowDemand(s *limits) {
	list := s.limiters(3, policy.Limit{Concurrency: 12})
	enter := func(l *limit.Limiter, n int) {
		s.Helper()
		s.until(fmt.Sprintf("%d places", n), func() bool { l.TryEnter(); return l.Inside() >= n })
	}
	leave := func(l *limit.Limiter) {
		for l.Inside() > 0 {
			l.Leave(limit.Ignored, 0, 0)
		}
	}
	enter(list[0], 10)
	leave(list[0])
	enter(list[1], 10)
	leave(list[1])
}

func placesOfTheDead(s *limits) {
	list := s.limiters(2, policy.Limit{Concurrency: 6})
	s.until("five places", func() bool { list[0].TryEnter(); return list[0].Inside() >= 5 })
	time.Sleep(300 * time.Millisecond)
	s.abandon(0)
	begin := time.Now()
	s.until("the places of the dead process", func() bool { list[1].TryEnter(); return list[1].Inside() >= 6 })
	if d := time.Since(begin); d < 3*time.Second {
		s.Errorf("the places were given to another process after %v, while their lease was live", d)
	}
}

func rateInBound(s *limits) {
	list := s.limiters(4, policy.Limit{Rate: policy.Rate{Count: 100, Per: time.Second, Burst: 10}})
	var starts atomic.Int64
	begin := time.Now()
	atOnce(len(list), func(i int) {
		for time.Since(begin) < 3*time.Second {
			if _, _, ok := list[i].Turn(0, 0); ok {
				starts.Add(1)
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	const lots = 4 * 10
	if bound := 10 + 100*(time.Since(begin).Seconds()+0.2) + lots; float64(starts.Load()) > bound {
		s.Errorf("%d starts, the bound is %.0f", starts.Load(), bound)
	}
	if starts.Load() < 100 { // a busy machine makes fewer than 300
		s.Errorf("only %d starts in three seconds at 100 a second", starts.Load())
	}
}

func placesInOutage(s *limits) {
	list := s.limiters(2, policy.Limit{Concurrency: 8})
	crowd(list, 500*time.Millisecond)
	s.outage(func() {
		crowd(list, 300*time.Millisecond)
		time.Sleep(300 * time.Millisecond)
		for i, l := range list {
			if l.Limit() < 4 {
				s.Errorf("process %d has %d places while the store is away, less than its equal share of 8", i, l.Limit())
			}
		}
	})
	s.until("the processes to keep to the limit together again", func() bool {
		most, _ := crowd(list, 300*time.Millisecond)
		return most <= 8
	})
}
