package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d. It returns the cause of ctx's end if that comes first, also when d is not positive.
func For(ctx context.Context, d time.Duration) error {
	_, err := ForSignal(ctx, d, nil)
	return err
}

// ForSignal waits for d or until it can receive from signal, and reports whether it has received, also because signal is
// closed. It returns the cause of ctx's end if that comes first. If d is not positive, it looks once, without a timer.
func ForSignal(ctx context.Context, d time.Duration, signal <-chan struct{}) (received bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if d <= 0 {
		select {
		case <-signal:
			return true, nil
		default:
			return false, nil
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-t.C:
		return false, nil
	case <-signal:
		return true, nil
	}
}

// Closed waits until done is closed, for at most d, and reports whether it is.
func Closed(done <-chan struct{}, d time.Duration) bool {
	closed, _ := ForSignal(context.Background(), d, done)
	return closed
}

// Backoff grows the waits between repetitions of something that fails. Set Min and Max; not safe for concurrent use.
type Backoff struct {
	Min, Max time.Duration
	failures int
}

// Failed counts a failure and returns the wait before the next try: after n failures in a row a random one between Min and
// Min·2ⁿ, at most Max. https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/ calls it full jitter; the
// floor prevents a draw near zero from becoming a hot loop.
func (b *Backoff) Failed() time.Duration {
	b.failures++
	return Jittered(b.Min, b.Max, b.failures)
}

// Wait counts a failure and waits as Failed says. It returns the cause of ctx's end if that comes first.
func (b *Backoff) Wait(ctx context.Context) error { return For(ctx, b.Failed()) }

// Reset starts again from Min, after a success.
func (b *Backoff) Reset() { b.failures = 0 }

// Failures is the number of failures since the last success.
func (b *Backoff) Failures() int { return b.failures }

// Jittered is the wait of a Backoff after so many failures in a row.
func Jittered(low, high time.Duration, failures int) time.Duration {
	ceiling := low
	for range failures {
		if ceiling > high/2 {
			ceiling = high
			break
		}
		ceiling *= 2
	}
	return low + rand.N(max(ceiling-low, 0)+1)
}
