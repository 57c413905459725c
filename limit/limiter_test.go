package limit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/policy"
)

func bounded(n int) policy.Limit { return policy.Limit{Concurrency: n} }

// TestB4NeverMoreInsideThanTheLimit compares random sequences of operations with a plain model of a line.
func TestB4NeverMoreInsideThanTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		l := New(bounded(limit), 0)
		inside := 0
		var line []*Waiter
		settle := func() { // those who must have a place by now, in order
			for len(line) > 0 && inside < limit {
				select {
				case <-line[0].Ready():
				default:
					t.Fatal("the first in line was not let in")
				}
				inside, line = inside+1, line[1:]
			}
			for _, w := range line {
				select {
				case <-w.Ready():
					t.Fatal("somebody overtook, or the limit was exceeded")
				default:
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"try": func(t *rapid.T) {
				free := inside < limit && len(line) == 0
				if l.TryEnter() != free {
					t.Fatalf("TryEnter with %d of %d inside and %d in line", inside, limit, len(line))
				}
				if free {
					inside++
				}
			},
			"queue": func(t *rapid.T) {
				free := inside < limit && len(line) == 0
				w := l.Queue()
				switch {
				case free != (w == nil):
					t.Fatalf("Queue with %d of %d inside and %d in line", inside, limit, len(line))
				case free:
					inside++
				default:
					line = append(line, w)
				}
			},
			"leave": func(t *rapid.T) {
				if inside == 0 {
					t.Skip()
				}
				l.Leave(Ignored, 0, 0)
				inside--
			},
			"cancel": func(t *rapid.T) {
				if len(line) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(line)-1).Draw(t, "who")
				if !line[i].Cancel() || line[i].Cancel() {
					t.Fatal("Cancel must succeed once")
				}
				line = append(line[:i:i], line[i+1:]...)
			},
			"update": func(t *rapid.T) {
				limit = rapid.IntRange(1, 4).Draw(t, "new limit")
				l.Update(bounded(limit), 0)
			},
			"": func(t *rapid.T) {
				settle()
				if l.Inside() != inside || l.InLine() != len(line) || l.Limit() != limit {
					t.Fatalf("inside %d, in line %d; want %d, %d", l.Inside(), l.InLine(), inside, len(line))
				}
			},
		})
	})
}

func TestB4ConcurrentAttemptsNeverExceedTheLimit(t *testing.T) {
	const limit, goroutines, rounds = 3, 16, 2000
	l := New(bounded(limit), 0)
	var inside, most, ran atomic.Int64
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range rounds {
				if !l.TryEnter() {
					w := l.Queue()
					if w != nil && (i+g)%5 == 0 && w.Cancel() {
						continue
					}
					if w != nil {
						<-w.Ready()
					}
				}
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				ran.Add(1)
				inside.Add(-1)
				l.Leave(Ignored, 0, 0)
			}
		})
	}
	group.Wait()
	if most.Load() > limit || ran.Load() == 0 {
		t.Errorf("%d inside at a time, limit %d; %d ran", most.Load(), limit, ran.Load())
	}
	if l.Inside() != 0 || l.InLine() != 0 {
		t.Errorf("%d places and %d positions leaked", l.Inside(), l.InLine())
	}
}

// TestB4TurnsKeepTheRate: in any window of t there are at most burst + t/apart turns, and the turns are in the order of requests.
func TestB4TurnsKeepTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy.Rate{Count: rapid.IntRange(1, 50).Draw(t, "count"), Per: time.Second, Burst: rapid.IntRange(1, 10).Draw(t, "burst")}
		l := New(policy.Limit{Rate: p}, 0)
		apart := (p.Per + time.Duration(p.Count) - 1) / time.Duration(p.Count)
		var now time.Duration
		var starts []time.Duration
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			now += time.Duration(rapid.Int64Range(0, int64(2*apart)).Draw(t, "pause"))
			longest := time.Duration(rapid.Int64Range(0, int64(5*apart)).Draw(t, "longest"))
			announced := l.Wait(now)
			turn, wait, ok := l.Turn(now, longest)
			if ok != (announced <= longest) || wait != announced {
				t.Fatalf("wait %s, announced %s, longest %s, given %v", wait, announced, longest, ok)
			}
			if !ok {
				continue
			}
			if rapid.IntRange(0, 9).Draw(t, "use") == 0 {
				l.GiveBack(turn)
				continue
			}
			starts = append(starts, now+wait)
		}
		for i := range starts {
			for j := i; j < len(starts); j++ {
				if n, window := j-i+1, starts[j]-starts[i]; window < 0 || n > p.Burst+int(window/apart) {
					t.Fatalf("%d turns in %s, burst %d, %s apart", n, window, p.Burst, apart)
				}
			}
		}
	})
}

func TestB4ATurnGivenBackIsUsedAgain(t *testing.T) {
	l := New(policy.Limit{Rate: policy.Rate{Count: 1, Per: time.Second, Burst: 1}}, 0)
	first, _, _ := l.Turn(0, 0)
	l.GiveBack(first)
	if _, wait, ok := l.Turn(0, 0); !ok || wait != 0 {
		t.Errorf("wait %s, %v", wait, ok)
	}
	if _, wait, ok := l.Turn(0, time.Second-1); ok || wait != time.Second {
		t.Errorf("a turn that is too far away: wait %s, %v", wait, ok)
	}
}

func TestB4TheSuccessPathDoesNotAllocate(t *testing.T) {
	l := New(policy.Limit{
		Concurrency: 10, Rate: policy.Rate{Count: 1000, Per: time.Second, Burst: 1000},
		Adaptive: policy.Adaptive{Enabled: true, Min: 1, Initial: 5},
	}, 0)
	now := time.Duration(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += time.Millisecond
		if !l.TryEnter() {
			t.Error("refused")
		}
		if _, _, ok := l.Turn(now, 0); !ok {
			t.Error("no turn")
		}
		l.Leave(Measured, time.Millisecond, now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestB4AChangedPolicyKeepsPlacesAndWhatWasLearnt(t *testing.T) {
	adaptive := policy.Limit{Concurrency: 50, Adaptive: policy.Adaptive{Enabled: true, Min: 2, Initial: 10}}
	l := New(adaptive, 0)
	l.TryEnter()
	l.mu.Lock()
	l.setLimit(30)
	l.mu.Unlock()
	l.Update(adaptive, 0)
	if l.Limit() != 30 || l.Inside() != 1 {
		t.Errorf("limit %d, inside %d after an update", l.Limit(), l.Inside())
	}
	adaptive.Concurrency = 20
	if l.Update(adaptive, 0); l.Limit() != 20 {
		t.Errorf("limit %d above its new bound", l.Limit())
	}
	if l.Update(policy.Limit{}, 0); l.Limit() != unlimited || l.Timed() {
		t.Errorf("limit %d without a policy", l.Limit())
	}
}

// TestB4APlaceThatIsBeingHandedOverIsNotTaken stops between the steps of Leave: a place is free, and somebody still waits for it.
func TestB4APlaceThatIsBeingHandedOverIsNotTaken(t *testing.T) {
	l := New(bounded(1), 0)
	l.TryEnter()
	w := l.Queue()
	l.mu.Lock()
	l.state.word.Add(^uint64(0))
	if l.TryEnter() {
		t.Error("somebody overtook the line")
	}
	l.handOver()
	l.mu.Unlock()
	select {
	case <-w.Ready():
	default:
		t.Error("the first in line was not let in")
	}
}

// TestB1NobodyEntersUnseenWhileTheLimitIsLowered lowers the limit and counts who is inside, as a process that gives places back to
// others does: they may take all places except those of the attempts that it saw.
func TestB1NobodyEntersUnseenWhileTheLimitIsLowered(t *testing.T) {
	l := New(bounded(4), 0)
	var running, entered, done atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for done.Load() == 0 {
				if l.TryEnter() {
					running.Add(1)
					entered.Add(1)
					running.Add(-1)
					l.Leave(Ignored, 0, 0)
				}
			}
		})
	}
	unseen, before := 0, int64(0)
	for tries, end := 0, time.Now().Add(time.Second); unseen == 0 && tries < 50_000 && time.Now().Before(end); {
		if n := entered.Load(); n != before { // attempts are made meanwhile
			before = n
			tries++
		}
		l.mu.Lock()
		l.limit.Store(0)
		seen := l.Inside()
		for range 20 {
			if running.Load() > int64(seen) {
				unseen++
				break
			}
		}
		l.setLimit(4)
		l.mu.Unlock()
	}
	done.Store(1)
	all.Wait()
	if unseen > 0 {
		t.Error("an attempt that had not been seen was inside")
	}
}
