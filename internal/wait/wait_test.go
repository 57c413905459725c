package wait

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestForWaitsOrReturnsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		if err := For(ctx, time.Hour); err != nil || time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := For(ctx, -1); err != nil {
			t.Error(err)
		}
		time.AfterFunc(time.Minute, func() { cancel(why) })
		start = time.Now()
		if err := For(ctx, time.Hour); !errors.Is(err, why) || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := For(ctx, 0); !errors.Is(err, why) {
			t.Errorf("a context that has ended: %v", err)
		}
	})
}

func TestASignalIsReceivedWithoutWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	signal := make(chan struct{}, 1)
	for range 100 {
		signal <- struct{}{}
		if received, err := ForSignal(ctx, 0, signal); !received || err != nil {
			t.Fatalf("a signal: %t, %v", received, err)
		}
		if received, err := ForSignal(ctx, -1, signal); received || err != nil {
			t.Fatalf("no signal: %t, %v", received, err)
		}
	}
	cancel()
	signal <- struct{}{}
	if _, err := ForSignal(ctx, 0, signal); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

func TestWaitsGrowFromTheLowestToTheHighest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := time.Duration(rapid.Int64Range(1, math.MaxInt64/2).Draw(t, "low"))
		high := time.Duration(rapid.Int64Range(int64(low), math.MaxInt64-1).Draw(t, "high"))
		if high/100 > low {
			spread := map[time.Duration]bool{}
			for range 20 {
				spread[Jittered(low, high, 50)] = true
			}
			if len(spread) < 5 {
				t.Fatalf("waits between %v and %v are not spread: %v", low, high, spread)
			}
		}
		b := Backoff{Min: low, Max: high}
		n := rapid.IntRange(1, 100).Draw(t, "failures")
		var d time.Duration
		for range n {
			d = b.Failed()
		}
		ceiling := float64(low) * math.Pow(2, float64(n))
		if d < low || d > high || float64(d) > ceiling*1.001 {
			t.Fatalf("%v after %d failures between %v and %v", d, n, low, high)
		}
		if b.Reset(); b.Failures() != 0 || float64(b.Failed()) > float64(low)*2.001 {
			t.Fatal("a success does not reset the wait")
		}
	})
}

func TestAWaitStaysBelowItsCeilingNextToTheHighestWait(t *testing.T) {
	for range 100 {
		if d := Jittered(2, 5, 1); d > 4 {
			t.Fatalf("%v after 1 failure between 2ns and 5ns, want at most 4ns", d)
		}
	}
}

func TestASignalOrAClosedChannelEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		signal := NewSignal()
		time.AfterFunc(time.Minute, signal.Send)
		if received, err := ForSignal(t.Context(), time.Hour, signal); !received || err != nil || time.Since(start) != time.Minute {
			t.Errorf("%v, %v after %v", received, err, time.Since(start))
		}
		if received, err := ForSignal(t.Context(), time.Hour, signal); received || err != nil {
			t.Errorf("without a signal: %v, %v", received, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		if received, err := ForSignal(ctx, time.Hour, signal); received || !errors.Is(err, why) {
			t.Errorf("a context that has ended: %v, %v", received, err)
		}
		done := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(done) })
		if Closed(done, time.Second) || !Closed(done, time.Hour) {
			t.Error("a channel is not closed after a second, but after a minute")
		}
	})
}

func TestSignalsAreMergedUntilTheyAreReceived(t *testing.T) {
	signal := NewSignal()
	signal.Send()
	signal.Send()
	<-signal
	select {
	case <-signal:
		t.Error("two signals were received")
	default:
	}
	Signal(nil).Send()
}

func TestAWaiterLeavesALockWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock, why := NewMutex(), errors.New("why")
		if err := lock.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		if err := lock.Lock(ctx); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
		time.AfterFunc(time.Minute, lock.Unlock)
		if err := lock.Lock(t.Context()); err != nil {
			t.Errorf("after the lock was released: %v", err)
		}
	})
}
