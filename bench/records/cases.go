package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/bench/bars"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// The names of cases that bars refer to.
const (
	hit, miss          = "guard, hit, memory", "guard, miss, memory"
	missPG, barePG     = "guard, miss, PostgreSQL", "two bare commits, PostgreSQL"
	closed, bareClosed = "audit to JSONL, 64 writers, each waits for the fsync of its event", "bare append and fsync of the same groups, of at most 64 events"
	queued, bareQueued = "audit to JSONL, 64 writers, until the last fsync", "bare append and fsync of the same groups"
	caller             = "audit, cost for the caller, buffered"
	verified, replayed = "verify, each core", "replay, each core"
	compared           = "policy diff, each core"
	verifyHeap         = "verify, peak heap"
	replayHeap         = "replay, peak heap"
	compareHeap        = "policy diff, peak heap"
)

// cases lists the measurements.
func cases(env *environment) []bars.Case {
	in := func(f func(context.Context, *environment) (float64, error)) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) { return f(ctx, env) }
	}
	return []bars.Case{
		{Name: hit, Unit: "ns", Run: in(guardHit)}, {Name: miss, Unit: "ns", Run: in(guardMiss)},
		{Name: missPG, Unit: "µs", Run: in(guardPostgres)}, {Name: barePG, Unit: "µs", Run: in(bareCommits)},
		{Name: closed, Unit: "events/s", Run: in(auditClosed)}, {Name: bareClosed, Unit: "events/s", Run: in(bareAppend)},
		{Name: queued, Unit: "events/s", Run: in(auditQueued)}, {Name: bareQueued, Unit: "events/s", Run: in(bareAppend)},
		{Name: caller, Unit: "ns", Run: in(callerCost)},
		{Name: verified, Unit: "events/s", Run: in(verify)}, {Name: replayed, Unit: "events/s", Run: in(replay)},
		{Name: compared, Unit: "events/s", Run: in(compare)}, {Name: compareHeap, Unit: "MB", Run: in(heapOf(compare))},
		{Name: verifyHeap, Unit: "MB", Run: in(heapOf(verify))}, {Name: replayHeap, Unit: "MB", Run: in(heapOf(replay))},
	}
}

// goals lists the bars.
func goals() []bars.Bar {
	const group = "audit to JSONL, 64 writers, group commit with fsync"
	return []bars.Bar{
		bars.AtMost("guard hit on memory", "≤ 1 µs", hit, 1000, "ns"),
		bars.AtMost("guard miss on memory", "≤ 2 µs", miss, 2000, "ns"),
		bars.Ratio("guard miss on PostgreSQL (begin + complete)", "≤ 2.2 × two bare single-row commits", missPG, barePG, "µs", 0, 2.2),
		bars.AtLeast(group, "≥ 100,000 events/s", queued, 100_000, "events/s"),
		bars.Ratio(group, "≥ 0.5 × a bare append-and-fsync of the same bytes", queued, bareQueued, "events/s", 0.5, 0),
		bars.Ratio("the same, each writer waiting for its event", "≥ 0.5 × a bare append-and-fsync of the same bytes", closed, bareClosed, "events/s", 0.5, 0),
		bars.AtMost("cost per event on the calling goroutine, buffered mode", "≤ 1 µs", caller, 1000, "ns"),
		bars.AtLeast("verify", "≥ 100,000 events/s per core", verified, 100_000, "events/s"),
		bars.AtLeast("replay", "≥ 100,000 events/s per core", replayed, 100_000, "events/s"),
		bars.AtLeast("policy diff over a log", "10 million events in ≤ 60 s per core", compared, 166_667, "events/s"),
	}
}

// memoryGuard keeps records for a tenth of a second after they end, so that the store reaches a steady size.
func memoryGuard() (*idempotency.Guard, error) {
	return idempotency.NewGuard(memory.Open().Idempotency(), idempotency.GuardOptions{TTL: 100 * time.Millisecond})
}

var receipt = []byte(`{"order":7}`)

func effect(context.Context) ([]byte, error) { return receipt, nil }

func guardHit(ctx context.Context, _ *environment) (float64, error) {
	guard, err := memoryGuard()
	if err != nil {
		return 0, err
	}
	return perOp(func(b *testing.B) {
		for b.Loop() {
			if _, err := guard.Do(ctx, idempotency.Request{Key: "order-1", Fingerprint: "f"}, effect); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func guardMiss(ctx context.Context, _ *environment) (float64, error) {
	guard, err := memoryGuard()
	if err != nil {
		return 0, err
	}
	n := 0
	return perOp(func(b *testing.B) {
		for b.Loop() {
			n++
			if _, err := guard.Do(ctx, idempotency.Request{Key: "order-" + strconv.Itoa(n), Fingerprint: "f"}, effect); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// perOp runs a benchmark and returns nanoseconds.
func perOp(f func(b *testing.B)) (float64, error) {
	r := testing.Benchmark(f)
	if r.N == 0 {
		return 0, errors.New("the benchmark failed")
	}
	return float64(r.T.Nanoseconds()) / float64(r.N), nil
}

const commits = 1000

func guardPostgres(ctx context.Context, env *environment) (float64, error) {
	guard, err := idempotency.NewGuard(env.db.Idempotency(), idempotency.GuardOptions{})
	if err != nil {
		return 0, err
	}
	prefix := fmt.Sprint(time.Now().UnixNano(), "-")
	return median(commits, func(i int) error {
		_, err := guard.Do(ctx, idempotency.Request{Key: prefix + strconv.Itoa(i), Fingerprint: "f"}, effect)
		return err
	})
}

func bareCommits(ctx context.Context, env *environment) (float64, error) {
	return median(commits, func(i int) error {
		for range 2 {
			if _, err := env.pool.Exec(ctx, `INSERT INTO bare (name, value) VALUES ($1, $2)`, strconv.Itoa(i), string(receipt)); err != nil {
				return err
			}
		}
		return nil
	})
}

// median runs f n times and returns microseconds.
func median(n int, f func(i int) error) (float64, error) {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		if err := f(i); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return float64(took[n/2].Nanoseconds()) / 1000, nil
}

// counting records the sizes of writes.
type counting struct {
	*audit.FileSink
	env *environment
}

func (s counting) Append(ctx context.Context, entries []audit.Entry) error {
	n := 0
	for _, e := range entries {
		n += len(e.Line) + 1
	}
	s.env.batches = append(s.env.batches, n)
	return s.FileSink.Append(ctx, entries)
}

const (
	writers   = 64
	perWriter = 5000
)

func auditClosed(ctx context.Context, env *environment) (float64, error) {
	return auditing(ctx, env, func(log *audit.Log, e *observe.Event) error { return log.Append(ctx, e) })
}

func auditQueued(ctx context.Context, env *environment) (float64, error) {
	return auditing(ctx, env, func(log *audit.Log, e *observe.Event) error { log.Observe(ctx, e); return nil })
}

// auditing records events from many goroutines into a file that is synced for every group.
func auditing(ctx context.Context, env *environment, record func(log *audit.Log, e *observe.Event) error) (float64, error) {
	folder, err := os.MkdirTemp(env.folder, "audit")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	name := filepath.Join(folder, "audit.jsonl")
	file, err := audit.OpenFile(name, audit.FileOptions{MaxSize: -1})
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	env.batches = nil
	log, err := audit.Open(ctx, counting{file, env}, audit.Options{Timeout: time.Minute})
	if err != nil {
		return 0, err
	}
	events := make([]*observe.Event, writers*perWriter) // making the events is not measured
	for i := range events {
		events[i] = decided(i)
	}
	runtime.GC()
	errs := make([]error, writers)
	var group sync.WaitGroup
	began := time.Now()
	for w := range writers {
		group.Go(func() {
			for i := range perWriter {
				if err := record(log, events[w*perWriter+i]); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	group.Wait()
	err = log.Close(ctx)
	took := time.Since(began)
	for _, e := range errs {
		if err == nil {
			err = e
		}
	}
	if err == nil {
		err = os.Rename(name, env.written())
	}
	return writers * perWriter / took.Seconds(), err
}

// bareAppend writes the same bytes in the same groups as the log did just before, and syncs each group.
func bareAppend(_ context.Context, env *environment) (float64, error) {
	f, err := os.CreateTemp(env.folder, "bare")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer f.Close()
	rest, err := os.ReadFile(env.written())
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for _, n := range env.batches {
		if _, err := f.Write(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	return writers * perWriter / time.Since(began).Seconds(), nil
}

// decided is a decision as an executor reports it.
func decided(i int) *observe.Event {
	e := *sample
	e.Time, e.Seq = time.Now(), i
	return &e
}

// sample is the decision to retry of a real call.
var sample = func() *observe.Event {
	var seen *observe.Event
	watch := observe.Func(func(_ context.Context, e *observe.Event) {
		if e.Type == observe.Decided && seen == nil {
			seen = e
		}
	})
	_ = executorOf(watch).Do(context.Background(), key, fail)
	return seen
}()

func callerCost(ctx context.Context, env *environment) (float64, error) {
	folder, err := os.MkdirTemp(env.folder, "caller")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file, err := audit.OpenFile(filepath.Join(folder, "audit.jsonl"), audit.FileOptions{MaxSize: -1})
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	const n = 1 << 16
	log, err := audit.Open(ctx, file, audit.Options{Mode: audit.Buffered, Buffer: 2 * n})
	if err != nil {
		return 0, err
	}
	events := make([]*observe.Event, n)
	for i := range events {
		events[i] = decided(i)
	}
	var took time.Duration
	const rounds = 5
	for range rounds {
		began := time.Now()
		for _, e := range events {
			log.Observe(ctx, e)
		}
		took += time.Since(began)
		if err := log.Flush(ctx); err != nil {
			return 0, err
		}
	}
	if s := log.Stats(); s.Lost > 0 {
		return 0, fmt.Errorf("%d events were lost", s.Lost)
	}
	return float64(took.Nanoseconds()) / (rounds * n), log.Close(ctx)
}

func verify(ctx context.Context, env *environment) (float64, error) {
	source := audit.NewFileSource(env.log)
	began := time.Now()
	report, err := audit.Verify(ctx, source, audit.VerifyOptions{})
	if err != nil {
		return 0, err
	}
	if !report.Intact() {
		return 0, fmt.Errorf("the log is not intact: %v", report.Faults)
	}
	return float64(report.Events) / time.Since(began).Seconds() / float64(runtime.GOMAXPROCS(0)), nil
}

func replay(ctx context.Context, env *environment) (float64, error) {
	source := audit.NewFileSource(env.log)
	began := time.Now()
	report, err := audit.Replay(ctx, source, audit.ReplayOptions{})
	if err != nil {
		return 0, err
	}
	return float64(report.Lines) / time.Since(began).Seconds() / float64(runtime.GOMAXPROCS(0)), nil
}

// compare is what "tenet policy diff --audit" does with the log.
func compare(ctx context.Context, env *environment) (float64, error) {
	p, err := policy.Compile(policy.Policy{Retry: policy.Retry{MaxAttempts: 2}}, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	report, err := audit.WhatIf(ctx, audit.NewFileSource(env.log), policy.NewSet(policy.SetConfig{Calls: p}), audit.ReplayOptions{})
	if err != nil {
		return 0, err
	}
	if report.Decisions.Changed == 0 {
		return 0, errors.New("no decision changed")
	}
	return float64(report.Lines) / time.Since(began).Seconds() / float64(runtime.GOMAXPROCS(0)), nil
}

// heapOf returns the peak of the heap in MB while f runs.
func heapOf(f func(context.Context, *environment) (float64, error)) func(context.Context, *environment) (float64, error) {
	return func(ctx context.Context, env *environment) (float64, error) {
		runtime.GC()
		done := make(chan struct{})
		var peak uint64
		var group sync.WaitGroup
		group.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-done:
					return
				case <-tick.C:
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak = max(peak, m.HeapInuse)
				}
			}
		})
		_, err := f(ctx, env)
		close(done)
		group.Wait()
		return float64(peak) / (1 << 20), err
	}
}
