package audit

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/policy"
)

// sample is an event of a typical size.
func sample() Event {
	left := Nanos(1_873_000_000)
	return Event{
		SchemaVersion: 1, ID: uuidv7.New(start), Type: RetryAttempt, Time: start.Add(123456000), Surface: "call", Key: "user-service.GetUser",
		WorkID: uuidv7.New(start), WorkSeq: 2, Operation: "get user", Category: "RETRY_API_REQUEST", TenantID: "tenant-123",
		CorrelationID: "corr-456", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", PolicyID: "rev-17", PolicyRevision: strings.Repeat("ab", 32),
		Attempt: 1, MaxAttempts: 4, OutcomeKind: "retryable", OutcomeCategory: "system", OutcomeReason: policy.ReasonError,
		OutcomeClasses: []policy.Class{"connection_refused"}, MatchedRule: "default",
		Facts: &Facts{Failed: true, Classes: []classify.Match{{Class: "connection_refused"}}}, Decision: "retry", Reason: policy.ReasonRetry,
		Delay: 0.043817, DelayNS: 43_817_000, ElapsedNS: 12_345_678, LeftNS: &left, LeftReason: policy.ReasonOverallTimeout, StateNumber: 1,
		Seed: 1234567890123456789, CoreVersion: CoreVersion, ExceptionType: "*net.OpError",
		ExceptionMessage: "dial tcp 10.0.0.7:443: connect: connection refused",
	}
}

func BenchmarkEncode(b *testing.B) {
	e, w := sample(), encoder{}
	w.event(&e)
	b.SetBytes(int64(len(w.b)))
	b.ReportAllocs()
	for b.Loop() {
		w.b = w.b[:0]
		w.event(&e)
	}
}

func BenchmarkSeal(b *testing.B) {
	e, w, c := sample(), encoder{}, newTestChain(uuidv7.New(start))
	b.ReportAllocs()
	for b.Loop() {
		w.b = w.b[:0]
		c.append(&w, &e)
	}
}

func BenchmarkParse(b *testing.B) {
	e, w, c := sample(), encoder{}, newTestChain(uuidv7.New(start))
	c.append(&w, &e)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseLine(w.b); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Append(context.Context, []Entry) error { return nil }
func (discard) Heads(context.Context) ([]Head, error) { return nil, nil }
func (discard) Close() error                          { return nil }

// BenchmarkObserveBuffered measures the caller's cost. The writer catches up outside of the measured time.
func BenchmarkObserveBuffered(b *testing.B) {
	l := open(b, discard{}, Options{Mode: Buffered})
	e := failed("call", 1)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if l.Observe(bg, e); n%50_000 == 49_999 {
			b.StopTimer()
			_ = l.Flush(bg)
			b.StartTimer()
		}
	}
	if lost := l.Stats().Lost; lost > 0 {
		b.Fatalf("%d lost", lost)
	}
	closeLog(b, l)
}

// BenchmarkWriter measures the writer's work for an event, without a sink.
func BenchmarkWriter(b *testing.B) {
	w := newWriter(&Log{}, discard{}, nil)
	defer w.end()
	e := failed("call", 1)
	e.Decision.Facts.Classes = []classify.Match{{Class: "connection_refused"}}
	b.ReportAllocs()
	for b.Loop() {
		w.begin()
		for range mostEvents {
			w.take(item{observed: e})
		}
		w.commit()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*mostEvents), "ns/event")
}

// BenchmarkFile runs 64 callers that log to a file, synced batch by batch. Callers of "append" wait for each event, callers of
// "observe" only while the buffer is full.
func BenchmarkFile(b *testing.B) {
	for _, name := range []string{"append", "observe"} {
		b.Run(name, func(b *testing.B) {
			sink := openFile(b, filepath.Join(b.TempDir(), "audit.jsonl"), FileOptions{})
			l := open(b, sink, Options{})
			var callers sync.WaitGroup
			b.ResetTimer()
			for c := range 64 {
				callers.Go(func() {
					e := failed(fmt.Sprint("call-", c), 1)
					for range b.N/64 + 1 {
						if name == "observe" {
							l.Observe(bg, e)
						} else if err := l.Append(bg, e); err != nil {
							b.Error(err)
						}
					}
				})
			}
			callers.Wait()
			flush(b, l)
			b.ReportMetric(float64(l.Stats().Stored)/b.Elapsed().Seconds(), "events/s")
			b.SetBytes(sink.size / int64(b.N))
			closeLog(b, l)
		})
	}
}
