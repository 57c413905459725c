package idempotency_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/idempotency"
)

var answer = []byte("result")

func effect(context.Context) ([]byte, error) { return answer, nil }

// BenchmarkHit uses an existing key, BenchmarkMiss a new one: begin, effect, record.
func BenchmarkHit(b *testing.B) {
	g, err := idempotency.NewGuard(memory.Open().Idempotency(), idempotency.GuardOptions{Tenant: "t", Operation: "op"})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Do(ctx, idempotency.Request{Key: "key", Fingerprint: "fingerprint"}, effect); err != nil {
			b.Fatal(err)
		}
	}
}

// The records of misses expire, so that the store stays at about a thousand records.
func BenchmarkMiss(b *testing.B) {
	g, err := idempotency.NewGuard(memory.Open().Idempotency(), idempotency.GuardOptions{Tenant: "t", Operation: "op", TTL: 2 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if _, err := g.Do(ctx, idempotency.Request{Key: strconv.Itoa(i), Fingerprint: "fingerprint"}, effect); err != nil {
			b.Fatal(err)
		}
	}
}
