package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is the kind of a measurement.
type Kind string

// The kinds.
const (
	Insert  Kind = "insert"  // one by one from Goroutines, for the time For
	Bulk    Kind = "bulk"    // Jobs in one call, as often as For allows, at least twice
	Burn    Kind = "burn"    // run existing Jobs
	Latency Kind = "latency" // enqueue Jobs one by one while the worker is idle
)

// Task is a measurement of a system.
type Task struct {
	Kind       Kind
	Goroutines int
	Jobs       int
	For        time.Duration
}

// Numbers are the results of a task.
type Numbers struct {
	Jobs   int             // jobs inserted or run while the clock ran
	Took   time.Duration   // wall time
	CPU    time.Duration   // processor time of this process, in total
	Server time.Duration   // processor time of the database server's processes, in total; 0 if unknown
	Waits  []time.Duration // latency: from the call of Insert to the handler
}

// Rate returns the jobs per second.
func (n Numbers) Rate() float64 { return float64(n.Jobs) / n.Took.Seconds() }

const (
	fillBy = 10_000 // jobs per call that fills a store
	// idle is the pause before a job whose latency is measured, plus a random time up to as long, so that the job arrives at any
	// point of a polling period.
	idle  = 10 * time.Millisecond
	stuck = 2 * time.Minute // without any progress
)

// Run measures a system and closes it. Server, if not nil, is the processor time of the database server so far.
func (t Task) Run(ctx context.Context, s System, server func() time.Duration) (n Numbers, err error) {
	defer func() { err = errors.Join(err, s.Close()) }()
	c := clock{server: server}
	switch t.Kind {
	case Insert:
		return t.insert(ctx, s, c)
	case Bulk:
		return t.bulk(ctx, s, c)
	case Burn:
		return t.burn(ctx, s, c)
	case Latency:
		return t.latency(ctx, s)
	}
	return n, fmt.Errorf("measure: %q is no kind of task", t.Kind)
}

func (t Task) insert(ctx context.Context, s System, c clock) (Numbers, error) {
	for range 10 { // connections, prepared statements
		if err := s.Insert(ctx); err != nil {
			return Numbers{}, err
		}
	}
	var jobs atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, t.Goroutines)
	c.start()
	for i := range errs {
		group.Go(func() {
			for more := true; more && errs[i] == nil; more = c.elapsed() < t.For { // once at least, however short t.For is
				errs[i] = s.Insert(ctx)
				jobs.Add(1)
			}
		})
	}
	group.Wait()
	return c.stop(int(jobs.Load())), errors.Join(errs...)
}

func (t Task) bulk(ctx context.Context, s System, c clock) (Numbers, error) {
	if err := s.InsertMany(ctx, t.Jobs); err != nil {
		return Numbers{}, err
	}
	jobs := 0
	c.start()
	for c.elapsed() < t.For || jobs < 2*t.Jobs {
		if err := s.InsertMany(ctx, t.Jobs); err != nil {
			return Numbers{}, err
		}
		jobs += t.Jobs
	}
	return c.stop(jobs), nil
}

// Fill stores n jobs and tidies up.
func Fill(ctx context.Context, s System, n int) error {
	for n > 0 {
		if err := s.InsertMany(ctx, min(n, fillBy)); err != nil {
			return err
		}
		n -= fillBy
	}
	if tidy, ok := s.(Settler); ok {
		return tidy.Settle(ctx)
	}
	return nil
}

// burn measures from the start of the worker until it has recorded all jobs and stopped.
func (t Task) burn(ctx context.Context, s System, c clock) (Numbers, error) {
	if err := Fill(ctx, s, t.Jobs); err != nil {
		return Numbers{}, err
	}
	var ran atomic.Int64
	done := make(chan struct{})
	c.start()
	stop, err := s.Work(ctx, func() {
		if ran.Add(1) == int64(t.Jobs) {
			close(done)
		}
	})
	if err != nil {
		return Numbers{}, err
	}
	waited := Progress(ctx, done, &ran)
	err = errors.Join(waited, stop())
	n := c.stop(int(ran.Load()))
	if err != nil {
		return n, err
	}
	left, err := s.Left(ctx)
	if err == nil && (left != 0 || n.Jobs != t.Jobs) {
		err = fmt.Errorf("measure: %d of %d jobs are not recorded as done, handlers ran %d times", left, t.Jobs, n.Jobs)
	}
	return n, err
}

// Progress waits for done, and fails when ran does not grow for two minutes.
func Progress(ctx context.Context, done <-chan struct{}, ran *atomic.Int64) error {
	tick := time.NewTicker(stuck)
	defer tick.Stop()
	for last := int64(-1); ; {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			now := ran.Load()
			if now == last {
				return fmt.Errorf("measure: no job ran for %v, after %d", stuck, now)
			}
			last = now
		}
	}
}

func (t Task) latency(ctx context.Context, s System) (n Numbers, err error) {
	started := make(chan time.Time, 1)
	stop, err := s.Work(ctx, func() { started <- time.Now() })
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	const warm = 5
	for i := range warm + t.Jobs {
		if err := sleep(ctx, idle+rand.N(idle)); err != nil {
			return n, err
		}
		begin := time.Now()
		if err := s.Insert(ctx); err != nil {
			return n, err
		}
		select {
		case at := <-started:
			if i >= warm {
				n.Waits = append(n.Waits, at.Sub(begin))
			}
		case <-time.After(stuck):
			return n, fmt.Errorf("measure: a job did not start for %v", stuck)
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
	n.Jobs = t.Jobs
	return n, nil
}

// Quantile is the nearest-rank quantile of the values, 0 of none.
func Quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
