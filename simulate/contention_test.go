package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

var errConflict = errors.New("conflict")

// contend lets clients update one row under optimistic concurrency control: each reads the row's version and writes it back, which
// fails if another has written since. It returns when the last message arrived, in ms, and how many writes there were.
func contend(t *testing.T, p policy.Retry, clients int, seed uint64) (ms, writes float64) {
	t.Helper()
	key := policy.ConsumerKey("row", "update") // of a pipeline step: steps may have many attempts and no backoff
	compiled, err := policy.Compile(policy.Policy{Key: key, Retry: p}, policy.LimitsFor(policy.SurfaceStep), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	w, random := newWorld(), newStream(seed, "row")
	executor := retry.NewExecutor(retry.ExecutorOptions{
		World: w, Provider: policy.NewSet(policy.SetConfig{Policies: map[policy.Key]*policy.Policy{key: compiled}}),
	})
	network := Latency{Distribution: Normal, Mean: 10 * time.Millisecond, Deviation: 2 * time.Millisecond}
	version, last := 0, time.Duration(0)
	travel := func() { w.Await(network.draw(&random), nil, nil) }
	for range clients {
		w.Go(func() {
			err := executor.Do(context.Background(), key, func(context.Context) error {
				travel()
				read := version
				travel()
				travel()
				writes++
				ok := read == version
				if ok {
					version++
				}
				travel()
				last = w.now
				if !ok {
					return errConflict
				}
				return nil
			}, retry.WithSeed(random.next()))
			if err != nil && !w.ended {
				t.Error(err)
			}
		})
	}
	w.run(time.Hour)
	if version != clients {
		t.Errorf("%d of %d clients have written", version, clients)
	}
	return float64(last.Milliseconds()), writes
}

// TestJitterOfAWS: M. Brooker, "Exponential backoff and jitter" (AWS Architecture Blog, 2015) and its simulator,
// https://github.com/aws-samples/aws-arch-backoff-simulator: the network takes N(10, 2) ms, base 5 ms, cap 2 s, 100 runs. The
// simulator's first delay is twice its base.
func TestJitterOfAWS(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const runs = 100
	exponential := func(j policy.Jitter) policy.Retry {
		return policy.Retry{MaxAttempts: 1000, InitialBackoff: 10 * time.Millisecond, MaxBackoff: 2 * time.Second, BackoffMultiplier: 2, Jitter: j}
	}
	decorrelated := exponential(policy.JitterDecorrelated)
	decorrelated.InitialBackoff = 5 * time.Millisecond
	for _, c := range []struct {
		name          string
		retry         policy.Retry
		millis, calls float64
	}{
		{"exponential", exponential(policy.JitterNone), 63_759, 1857},
		{"equal", exponential(policy.JitterEqual), 6649, 813},
		{"decorrelated", decorrelated, 4695, 1004},
		{"full", exponential(policy.JitterFull), 4936, 796},
		{"none", policy.Retry{MaxAttempts: 1000, BackoffMultiplier: 1, Jitter: policy.JitterNone}, 2030, 2424},
	} {
		var times, calls []float64
		for seed := range uint64(runs) {
			ms, writes := contend(t, c.retry, 100, seed)
			times, calls = append(times, ms), append(calls, writes)
		}
		compare := func(what string, list []float64, published float64) {
			mean, squares := 0.0, 0.0
			for _, v := range list {
				mean += v / runs
			}
			for _, v := range list {
				squares += (v - mean) * (v - mean)
			}
			// The published figure is such a mean too.
			standardError := math.Sqrt(squares/(runs-1)/runs) * math.Sqrt2
			text := fmt.Sprintf("%s: %.0f %s, published %.0f, standard error %.1f", c.name, mean, what, published, standardError)
			t.Log(text)
			away := math.Abs(mean-published) > 3*standardError+0.5
			// Tenet cuts the range of a decorrelated draw at the cap (D2); the source cuts the draw, so that delays pile up on the cap.
			differs := c.name == "decorrelated" && what == "ms"
			if away != differs || differs && mean > published {
				t.Error(text)
			}
		}
		compare("ms", times, c.millis)
		compare("calls", calls, c.calls)
	}
}
