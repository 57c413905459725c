//go:build unix

package pipelines

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/pipeline"
)

// leasing is a source whose deliveries have leases.
type leasing struct {
	*pipeline.MemorySource
	extended chan int
}

func (s *leasing) ExtendEvery() time.Duration { return time.Millisecond }

func (s *leasing) Extend(_ context.Context, held []pipeline.Delivery) []error {
	select {
	case s.extended <- len(held):
	default:
	}
	return nil
}

// TestL7AProducerExtendsTheLeasesOfItsInput checks that a producer extends the deliveries that it writes and those not yet acknowledged.
func TestL7AProducerExtendsTheLeasesOfItsInput(t *testing.T) {
	source := &leasing{pipeline.NewMemorySource(pipeline.NewTransaction("a", nil), pipeline.NewTransaction("b", nil)), make(chan int)}
	in := &intake{source: source, size: 2, held: map[*pipeline.Transaction]pipeline.Delivery{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go in.extend(ctx)
	for x, err := range in.all(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if n := <-source.extended; n != 2 {
			t.Errorf("%d are kept", n)
		}
		if x.ID() == "a" {
			in.ended(pipeline.Ended{Delivery: pipeline.Delivery{Transaction: x}, Outcome: pipeline.Success})
		}
	}
	if in.finish(ctx) != 0 || len(source.Acked()) != 1 {
		t.Errorf("acknowledged %v", source.Acked())
	}
	if waiting, out := source.Len(); waiting != 1 || out != 0 {
		t.Errorf("%d wait and %d are held", waiting, out)
	}
}

// TestL7ATransactionThatEndsIsKeptOnce: the lease of one that ends while leases are extended is extended once.
func TestL7ATransactionThatEndsIsKeptOnce(t *testing.T) {
	x := pipeline.NewTransaction("a", nil)
	d := pipeline.Delivery{Transaction: x}
	for range 20_000 {
		in := &intake{held: map[*pipeline.Transaction]pipeline.Delivery{x: d}}
		var group sync.WaitGroup
		group.Go(func() { in.ended(pipeline.Ended{Delivery: d, Outcome: pipeline.Success}) })
		if n := len(in.kept()); n != 1 {
			t.Fatalf("%d are kept", n)
		}
		group.Wait()
	}
}

func TestLiveText(t *testing.T) {
	p := pipeline.Progress{InFlight: 3, Oldest: 1234 * time.Millisecond, Summary: pipeline.Summary{Success: 10, Failed: 2, Retries: 1}}
	if got, want := liveText(p, 12.4), "3 in flight, 12/s, 12 done, 1 retry, oldest 1.23s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPaceIsTheRateOfTheLastSecond(t *testing.T) {
	var p pace
	var got float64
	start, done := time.Now(), 0
	for i := range 40 {
		if i >= 20 {
			done += 5 // 50 a second
		}
		got = p.at(start.Add(time.Duration(i)*100*time.Millisecond), done)
		if i == 19 && got != 0 {
			t.Errorf("idle: %v", got)
		}
	}
	if got < 49 || got > 51 {
		t.Errorf("got %v a second", got)
	}
}
