package striped_test

import (
	"sync"
	"testing"

	"github.com/tenetdev/tenet/internal/striped"
)

func TestCounterLosesNothing(t *testing.T) {
	var c striped.Counter
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 10_000 {
				c.Add()
			}
		})
	}
	group.Wait()
	if c.Sum() != 80_000 {
		t.Errorf("sum %d", c.Sum())
	}
}

func TestOwnStripeIsInRange(t *testing.T) {
	for range 100 {
		done := make(chan uint64)
		go func() { done <- striped.Own() }()
		if i := <-done; i >= striped.Stripes {
			t.Fatalf("stripe %d", i)
		}
	}
}
