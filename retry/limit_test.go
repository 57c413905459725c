package retry_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/internal/virtual"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func limited(attempts int, l policy.Limit) policy.Policy {
	p := exact(attempts)
	p.Limit = l
	return p
}

// free fails the test unless the key's place can be taken at once: nothing was leaked.
func free(t *testing.T, e *retry.Executor) {
	t.Helper()
	if err := e.Do(bg, key, func(context.Context) error { return nil }); err != nil {
		t.Errorf("a place leaked: %v", err)
	}
}

func TestB4ACallOverTheLimitIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, limited(3, policy.Limit{Concurrency: 1}))
		go func() { _ = e.Do(bg, key, after(time.Second, nil)) }()
		synctest.Wait()
		timeline, err := e.DoWithTimeline(bg, key, after(0, nil))
		failed := failure(t, err, policy.ReasonConcurrencyLimited)
		if failed.Attempts != 0 || !errors.Is(err, retry.ErrLimited) {
			t.Errorf("%d attempts, %v", failed.Attempts, err)
		}
		if a := timeline.Attempts; len(a) != 1 || !a[0].Denied || a[0].Outcome.Reason != policy.ReasonConcurrencyLimited || !a[0].Start.Equal(a[0].End) {
			t.Errorf("records %+v", a)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		free(t, e)
	})
}

func TestB4WaitsAreFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, limited(1, policy.Limit{Concurrency: 1, MaxWait: time.Minute}))
		var mu sync.Mutex
		var order []int
		for i := range 10 {
			go func() {
				_ = e.Do(bg, key, func(ctx context.Context) error {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					return after(time.Second, nil)(ctx)
				})
			}()
			synctest.Wait() // i is in line before i + 1
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order); diff != "" {
			t.Error(diff)
		}
		free(t, e)
	})
}

func TestB4AWaitIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		limit   policy.Limit
		overall time.Duration
		caller  time.Duration // when its context ends
		reason  policy.Reason
		took    time.Duration
	}{
		"by max_wait":                          {policy.Limit{Concurrency: 1, MaxWait: time.Second}, 0, 0, policy.ReasonConcurrencyLimited, time.Second},
		"by the overall timeout":               {policy.Limit{Concurrency: 1, MaxWait: time.Minute}, 2 * time.Second, 0, policy.ReasonOverallTimeout, 2 * time.Second},
		"by the caller's deadline":             {policy.Limit{Concurrency: 1, MaxWait: time.Minute}, 0, 3 * time.Second, policy.ReasonDeadlineExceeded, 3 * time.Second},
		"a turn after max_wait is refused":     {policy.Limit{Rate: policy.Rate{Count: 1, Per: time.Minute}, MaxWait: time.Second}, 0, 0, policy.ReasonRateLimited, 0},
		"a turn after the deadline is refused": {policy.Limit{Rate: policy.Rate{Count: 1, Per: time.Minute}, MaxWait: time.Hour}, 0, 3 * time.Second, policy.ReasonRateLimited, 0},
		"a turn after the timeout is refused":  {policy.Limit{Rate: policy.Rate{Count: 1, Per: time.Minute}, MaxWait: time.Hour}, time.Second, 0, policy.ReasonRateLimited, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := limited(3, c.limit)
				p.Retry.OverallTimeout = c.overall
				e := executor(t, p)
				hold, release := context.WithCancel(bg)
				if c.overall == 0 {
					go func() { _ = e.Do(hold, key, after(time.Hour, nil)) }()
				} else { // the holder has the same timeout, and must outlast it
					go func() { _ = e.Do(hold, key, func(context.Context) error { time.Sleep(time.Hour); return nil }) }()
				}
				synctest.Wait()
				ctx := bg
				if c.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(bg, c.caller)
					defer cancel()
				}
				start := time.Now()
				err := e.Do(ctx, key, after(0, nil))
				if took := time.Since(start); failure(t, err, c.reason).Attempts != 0 || took != c.took {
					t.Errorf("took %s, want %s: %v", took, c.took, err)
				}
				release()
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

func TestB4CancellingAWaitFreesThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, limited(1, policy.Limit{Concurrency: 1, MaxWait: time.Minute}))
		go func() { _ = e.Do(bg, key, after(10*time.Second, nil)) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(bg)
		canceled := make(chan error, 1)
		go func() { canceled <- e.Do(ctx, key, after(0, nil)) }()
		synctest.Wait()
		next := make(chan error, 1)
		go func() { next <- e.Do(bg, key, after(0, nil)) }()
		time.Sleep(time.Second)
		cancel()
		failure(t, <-canceled, policy.ReasonCanceled)
		if err := <-next; err != nil {
			t.Error(err)
		}
		free(t, e)
	})
}

// TestB4AWaitIsRecorded: the attempt starts after its wait, and its timeout counts from there.
func TestB4AWaitIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limited(1, policy.Limit{Concurrency: 1, MaxWait: time.Minute})
		p.Retry.TimeoutPerAttempt = 3 * time.Second
		e := executor(t, p)
		go func() { _ = e.Do(bg, key, after(2*time.Second, nil)) }()
		synctest.Wait()
		timeline, err := e.DoWithTimeline(bg, key, after(2*time.Second, nil))
		if err != nil {
			t.Fatal(err)
		}
		a := timeline.Attempts[0]
		wait, waited := a.LimitWait()
		if a.Start.Sub(timeline.Start) != 2*time.Second || a.End.Sub(a.Start) != 2*time.Second || !waited || wait != 2*time.Second {
			t.Errorf("%s", timeline)
		}
	})
}

func TestB4TheRateIsKeptAcrossCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, limited(1, policy.Limit{Rate: policy.Rate{Count: 10, Per: time.Second, Burst: 2}, MaxWait: time.Minute}))
		begin := time.Now()
		var mu sync.Mutex
		var starts []time.Duration
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				_ = e.Do(bg, key, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					starts = append(starts, time.Since(begin))
					return nil
				})
			})
		}
		group.Wait()
		want := []time.Duration{0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, 400 * time.Millisecond}
		slices.Sort(starts)
		if diff := cmp.Diff(want, starts); diff != "" {
			t.Error(diff)
		}
	})
}

// TestB4EachAttemptTakesItsOwnPlace: a call holds none during its backoff, and a refused retry ends it with its last error.
func TestB4EachAttemptTakesItsOwnPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, limited(2, policy.Limit{Concurrency: 1}))
		first := make(chan error, 1)
		go func() { first <- e.Do(bg, key, after(0, errDown)) }()
		synctest.Wait() // it waits for its retry
		go func() { _ = e.Do(bg, key, after(time.Minute, nil)) }()
		err := <-first
		if f := failure(t, err, policy.ReasonConcurrencyLimited); f.Attempts != 1 || !errors.Is(err, errDown) || !errors.Is(err, retry.ErrLimited) {
			t.Errorf("%d attempts, %v", f.Attempts, err)
		}
		time.Sleep(time.Minute)
	})
}

// TestB4HedgesDoNotWait: a hedge without a free place is recorded and is not terminal; a loser holds its place until it ends.
func TestB4HedgesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hedged(1, 1)
		p.Limit = policy.Limit{Concurrency: 1, MaxWait: time.Minute}
		timeline, err := executor(t, p).DoWithTimeline(bg, key, after(time.Second, nil))
		if a := timeline.Attempts; err != nil || len(a) != 2 || !a[1].Denied || a[1].Outcome.Reason != policy.ReasonConcurrencyLimited {
			t.Errorf("%v\n%s", err, timeline)
		}
		p.Limit.Concurrency = 2
		e := executor(t, p)
		deaf := func(context.Context) error { time.Sleep(time.Hour); return nil }
		op, _ := racing(deaf, after(0, nil))
		if err := e.Do(bg, key, op); err != nil {
			t.Fatal(err)
		}
		go func() { _ = e.Do(bg, key, after(time.Minute, nil), retry.WithoutHedging()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		failure(t, e.Do(ctx, key, after(0, nil)), policy.ReasonDeadlineExceeded)
		_ = e.Wait(bg)
		free(t, e)
	})
}

// TestB4EveryPlaceIsReleasedOnce: however a call ends, exactly the places that it took are free again.
func TestB4EveryPlaceIsReleasedOnce(t *testing.T) {
	boom := func(context.Context) error { panic("boom") }
	deaf := func(context.Context) error { time.Sleep(time.Minute); return nil }
	for name, c := range map[string]ending{
		"success":              {0, []func(context.Context) error{after(0, nil)}, 0},
		"failures":             {0, []func(context.Context) error{after(0, errDown)}, 0},
		"panic":                {0, []func(context.Context) error{boom}, 0},
		"panic of a retry":     {0, []func(context.Context) error{after(0, errDown), boom}, 0},
		"cancelled":            {0, []func(context.Context) error{after(time.Hour, nil)}, time.Second},
		"hedge wins":           {2, []func(context.Context) error{after(time.Hour, nil), after(0, nil)}, 0},
		"deaf loser":           {1, []func(context.Context) error{deaf, after(0, nil)}, 0},
		"hedged panic":         {1, []func(context.Context) error{boom}, 0},
		"panic of a hedge":     {1, []func(context.Context) error{deaf, boom}, 0},
		"hedged, both fail":    {1, []func(context.Context) error{after(150*time.Millisecond, errDown)}, 0},
		"hedged and cancelled": {2, []func(context.Context) error{after(time.Hour, nil)}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const places = 3
				p := c.policy()
				p.Limit = policy.Limit{Concurrency: places}
				e := executor(t, p, func(o *retry.ExecutorOptions) { o.Observer = &log{} })
				c.happen(t, e)
				var group sync.WaitGroup
				var running atomic.Int64
				for range places {
					group.Go(func() {
						_ = e.Do(bg, key, func(ctx context.Context) error { running.Add(1); return after(time.Second, nil)(ctx) }, retry.WithoutHedging())
					})
				}
				synctest.Wait()
				if running.Load() != places {
					t.Errorf("%d of %d places are free", running.Load(), places)
				}
				failure(t, e.Do(bg, key, after(0, nil)), policy.ReasonConcurrencyLimited)
				group.Wait()
			})
		})
	}
}

// TestB4ABreakerThatOpenedDuringAWaitIsSeen: those who waited do not run into an outage that is known by now.
func TestB4ABreakerThatOpenedDuringAWaitIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limited(1, policy.Limit{Concurrency: 1, MaxWait: time.Minute})
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1, Cooldown: time.Hour}
		e := executor(t, p)
		go func() { _ = e.Do(bg, key, after(time.Second, errDown)) }()
		synctest.Wait()
		failure(t, e.Do(bg, key, after(0, nil)), policy.ReasonCircuitOpen)
	})
}

// TestB4ABreakerOpensBeforeThePlaceIsGivenBack: whoever waits for the place asks the breaker once it has it.
func TestB4ABreakerOpensBeforeThePlaceIsGivenBack(t *testing.T) {
	p := limited(1, policy.Limit{Concurrency: 1})
	p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1, Cooldown: time.Hour}
	w := &waking{}
	e := executor(t, p, func(o *retry.ExecutorOptions) { o.World = w })
	w.woken = func() {
		w.woken = nil
		failure(t, e.Do(bg, key, after(0, nil)), policy.ReasonCircuitOpen)
	}
	failure(t, e.Do(bg, key, func(context.Context) error { return errDown }), policy.ReasonAttemptsExhausted)
	if w.woken != nil {
		t.Error("the place was not given back")
	}
}

// TestB4ACallThatFindsAPlaceAsksTheBreakerAgain: the failure that opened the breaker made the place free.
func TestB4ACallThatFindsAPlaceAsksTheBreakerAgain(t *testing.T) {
	for name, l := range map[string]policy.Limit{
		"places":          {Concurrency: 1},
		"places and rate": {Concurrency: 1, Rate: policy.Rate{Count: 100, Per: time.Second, Burst: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			p := limited(1, l)
			p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1, Cooldown: time.Hour}
			b := &meanwhile{}
			e := withBudget(t, p, b)
			b.next(func() {
				failure(t, e.Do(bg, key, func(context.Context) error { return errDown }), policy.ReasonAttemptsExhausted)
			})
			op, calls := script(nil)
			if failed := failure(t, e.Do(bg, key, op), policy.ReasonCircuitOpen); *calls != 0 || failed.Attempts != 0 || b.held.Load() != 0 {
				t.Errorf("%d calls, %d attempts, %d grants held", *calls, failed.Attempts, b.held.Load())
			}
		})
	}
}

// TestB4AHedgeThatFindsAPlaceIsNoProbe: the breaker opened and became half open while the budget thought.
func TestB4AHedgeThatFindsAPlaceIsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hedged(1, 1)
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1, Cooldown: time.Minute}
		p.Limit.Concurrency = 5
		b := &meanwhile{}
		e := withBudget(t, p, b)
		op, launched := racing(func(context.Context) error {
			b.next(func() {
				_ = e.Do(bg, key, func(context.Context) error { return errDown })
				time.Sleep(time.Minute)
			})
			time.Sleep(2 * time.Minute)
			return nil
		})
		timeline, err := e.DoWithTimeline(bg, key, op)
		if err != nil || launched.Load() != 1 {
			t.Fatalf("%v, %d launched", err, launched.Load())
		}
		if hedge := timeline.Attempts[1]; !hedge.Denied || hedge.Outcome.Reason != policy.ReasonHalfOpen {
			t.Errorf("%+v", hedge)
		}
	})
}

// meanwhile is a budget that runs something after the breaker has been asked and before the limit is.
type meanwhile struct {
	run  atomic.Pointer[func()]
	held atomic.Int64
}

// next sets what runs, once.
func (b *meanwhile) next(f func()) { b.run.Store(&f) }

func (b *meanwhile) AllowAttempt(context.Context, policy.Key, int, budget.AttemptKind, policy.BudgetRef) budget.Decision {
	if f := b.run.Swap(nil); f != nil {
		(*f)()
	}
	b.held.Add(1)
	d := budget.Allow()
	d.Release = func() { b.held.Add(-1) }
	return d
}

// waking is a world that calls woken instead of waking those who wait.
type waking struct {
	virtual.World
	woken func()
}

func (w *waking) Now() time.Duration { return time.Second }

func (w *waking) Wake(any) int {
	if w.woken != nil {
		w.woken()
	}
	return 0
}

func TestB4StoredWorkDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, limited(3, policy.Limit{Rate: policy.Rate{Count: 1, Per: time.Minute}, MaxWait: time.Hour}))
		free(t, e)
		r := e.Once(bg, retry.Work{Key: key, ID: "w"}, after(0, nil))
		if !r.Denied || r.Wait != time.Minute || r.Verdict.Reason != policy.ReasonRateLimited {
			t.Errorf("%+v", r)
		}
	})
}

// TestB4AnEditCannotChangeTheLimit: it can switch the limit off, and decide on waiting.
func TestB4AnEditCannotChangeTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, limited(1, policy.Limit{Concurrency: 1}))
		go func() { _ = e.Do(bg, key, after(time.Second, nil)) }()
		synctest.Wait()
		edit := func(f func(*policy.Limit)) retry.CallOption {
			return retry.WithPolicy(func(p *policy.Policy) { f(&p.Limit) })
		}
		failure(t, e.Do(bg, key, after(0, nil), edit(func(l *policy.Limit) { l.Concurrency = 9 })), policy.ReasonConcurrencyLimited)
		for _, change := range []func(*policy.Limit){
			func(l *policy.Limit) { *l = policy.Limit{} }, func(l *policy.Limit) { l.MaxWait = time.Minute },
		} {
			if err := e.Do(bg, key, after(0, nil), edit(change)); err != nil {
				t.Error(err)
			}
		}
	})
}

// backend serves ten requests at a time, 50 ms each, first come first served, whether or not anybody still waits for them.
type backend struct{ workers chan struct{} }

func (b *backend) serve(ctx context.Context) error {
	served := make(chan struct{})
	go func() {
		b.workers <- struct{}{}
		time.Sleep(50 * time.Millisecond)
		<-b.workers
		close(served)
	}()
	select {
	case <-served:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overload offers 600 requests a second to a backend for 200, for 14 s, and returns the share of the backend's capacity that
// succeeded within 300 ms in the last 8 s.
func overload(e *retry.Executor) (goodput float64) {
	b := &backend{make(chan struct{}, 10)}
	var good atomic.Int64
	begin := time.Now()
	for time.Since(begin) < 14*time.Second {
		go func() {
			if err := e.Do(bg, key, b.serve); err == nil && time.Since(begin) > 6*time.Second {
				good.Add(1)
			}
		}()
		time.Sleep(time.Second / 600)
	}
	time.Sleep(time.Hour)
	return float64(good.Load()) / (8 * 200)
}

// TestB4TheAdaptiveLimitKeepsGoodputInAnOverload: without a limit nearly every request times out behind others that have
// timed out; with the adaptive limit the backend works at nearly its capacity. It grows again after the overload.
func TestB4TheAdaptiveLimitKeepsGoodputInAnOverload(t *testing.T) {
	p := exact(1)
	p.Retry.TimeoutPerAttempt = 300 * time.Millisecond
	var without, with float64
	synctest.Test(t, func(t *testing.T) { without = overload(executor(t, p)) })
	p.Limit = policy.Limit{Adaptive: policy.Adaptive{Enabled: true, Initial: 100}}
	changes := &log{}
	synctest.Test(t, func(t *testing.T) {
		with = overload(executor(t, p, func(o *retry.ExecutorOptions) { o.Observer = changes }))
	})
	lowest, grown := 100, false
	for _, e := range changes.events {
		if e.Type == observe.LimitChanged {
			lowest, grown = min(lowest, e.Limit.To), grown || e.Limit.To > e.Limit.From
		}
	}
	t.Logf("goodput %.2f with, %.2f without, lowest limit %d", with, without, lowest)
	if without > 0.2 || with < 0.9 || lowest > 20 || !grown {
		t.Errorf("goodput %.2f with, %.2f without, lowest limit %d, grown %v", with, without, lowest, grown)
	}
}
