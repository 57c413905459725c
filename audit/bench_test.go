package audit

import (
	"strings"
	"testing"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// sample is an event of the usual size.
func sample() Event {
	left := Nanos(1_873_000_000)
	return Event{
		SchemaVersion: 1, ID: newID(start), Type: RetryAttempt, Time: start.Add(123456000), Surface: "call", Key: "user-service.GetUser",
		WorkID: newID(start), WorkSeq: 2, Operation: "get user", Category: "RETRY_API_REQUEST", TenantID: "tenant-123",
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
	e, w, c := sample(), encoder{}, chain{id: newID(start), hash: strings.Repeat("cd", 32)}
	b.ReportAllocs()
	for b.Loop() {
		w.b = w.b[:0]
		c.seal(&w, &e)
	}
}

func BenchmarkParse(b *testing.B) {
	e, w, c := sample(), encoder{}, chain{id: newID(start), hash: strings.Repeat("cd", 32)}
	c.seal(&w, &e)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseLine(w.b); err != nil {
			b.Fatal(err)
		}
	}
}
