package simulate_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/tenetdev/tenet/simulate"
)

// rounding is half of the last digit of figures that are published with three.
const rounding = 0.0005

// long skips a test of many simulations where time is short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds, and minutes under the race detector")
	}
}

// near fails unless got is within three standard errors of a published figure.
func near(t *testing.T, what string, got, want, standardError float64) {
	t.Helper()
	if math.Abs(got-want) > 3*standardError+rounding {
		t.Errorf("%s is %.4f, published %.4f, standard error %.4f", what, got, want, standardError)
	}
}

// TestClosedFormOfRetries: with R retries of attempts that fail independently with probability f, a call makes
// (1 − f^(R+1)) / (1 − f) attempts and succeeds with probability 1 − f^(R+1).
func TestClosedFormOfRetries(t *testing.T) {
	long(t)
	for _, c := range []struct{ f, attempts, success float64 }{
		{0.2, 1.248, 0.9984}, {0.5, 1.875, 0.9375}, {0.75, 2.734, 0.6836},
	} {
		r := run(t, fmt.Sprintf(`
version: 1
duration: 1000s
policies: {s.Get: {retry: {max_attempts: 4, backoff: 1ms, backoff_cap: 1ms}}}
services: {s: {errors: %g}}
clients: {c: {service: s, policy: s.Get, rate: 100}}
`, c.f), simulate.Options{}).Clients[0]
		mean, square := 0.0, 0.0
		for n := 1.0; n <= 4; n++ {
			p := math.Pow(c.f, n-1) * (1 - c.f)
			if n == 4 {
				p = c.f * c.f * c.f
			}
			mean += n * p
			square += n * n * p
		}
		calls := float64(r.Calls)
		near(t, fmt.Sprintf("f %g: attempts per call", c.f), r.AttemptsPerCall, c.attempts, math.Sqrt((square-mean*mean)/calls))
		near(t, fmt.Sprintf("f %g: success", c.f), r.Success, c.success, math.Sqrt(c.success*(1-c.success)/calls))
	}
}

// bucket runs clients whose bucket of 5 tokens gets 0.1 with every call, over several seeds, and returns success and load with
// their standard errors.
//
// In the source a retry needs more than one token; a bucket of 4.9 that needs one token or more refuses the same retries. Calls there
// have no other bound on their attempts; here they have the highest, 10.
func bucket(t *testing.T, count int, rate, f, seconds float64) (success, load, successError, loadError float64) {
	t.Helper()
	const seeds = 10
	s := parse(t, fmt.Sprintf(`
version: 1
duration: %gs
budgets: {b: {kind: retry_ratio, ratio: 0.1, burst: 4.9}}
policies: {s.Get: {retry: {max_attempts: 10, backoff: 1ms, backoff_cap: 1ms, budget: {name: b}}}}
services: {s: {errors: %g}}
clients: {c: {service: s, policy: s.Get, count: %d, rate: %g}}
`, seconds, f, count, rate))
	var successes, loads []float64
	for seed := range uint64(seeds) {
		r, err := s.Run(t.Context(), simulate.Options{Seed: seed + 1})
		if err != nil {
			t.Fatal(err)
		}
		successes, loads = append(successes, r.Clients[0].Success), append(loads, r.Clients[0].AttemptsPerCall)
	}
	success, successError = moments(successes)
	load, loadError = moments(loads)
	// The published figure is a single run, whose error is that of one of these.
	return success, load, successError * math.Sqrt(seeds+1), loadError * math.Sqrt(seeds+1)
}

// moments returns the mean of values and its standard error.
func moments(list []float64) (mean, standardError float64) {
	n := float64(len(list))
	for _, v := range list {
		mean += v / n
	}
	for _, v := range list {
		standardError += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(standardError / (n - 1) / n)
}

// TestTokenBucketsOfBrooker: M. Brooker, "Fixing retries with token buckets and circuit breakers" (2022,
// https://brooker.co.za/blog/2022/02/28/retries.html; retry_sim in https://github.com/mbrooker/simulator_example). 100 clients make 10 calls per second each for 60 s, which is the duration
// that the published load implies: 0.1 retries per call and the tokens of the full buckets.
func TestTokenBucketsOfBrooker(t *testing.T) {
	long(t)
	for _, c := range []struct{ f, success, load float64 }{
		{0.1, 0.985, 1.095}, {0.2, 0.886, 1.106}, {0.5, 0.555, 1.107},
	} {
		success, load, successError, loadError := bucket(t, 100, 10, c.f, 60)
		t.Logf("f %g: %.4f × %.4f", c.f, success, load)
		near(t, fmt.Sprintf("f %g: success", c.f), success, c.success, successError)
		near(t, fmt.Sprintf("f %g: load", c.f), load, c.load, loadError)
	}
}

// TestMoreClientsHaveMoreTokens: the same source, 100 calls per second in all for 200 s, half of the attempts fail. The source's
// clients make one more call each, at the start.
func TestMoreClientsHaveMoreTokens(t *testing.T) {
	long(t)
	for _, c := range []struct {
		count         int
		success, load float64
	}{{10, 0.553, 1.102}, {100, 0.562, 1.121}, {1000, 0.652, 1.299}} {
		success, load, successError, loadError := bucket(t, c.count, 100/float64(c.count), 0.5, 200+float64(c.count)/100)
		t.Logf("%d clients: %.4f × %.4f", c.count, success, load)
		near(t, fmt.Sprintf("%d clients: success", c.count), success, c.success, successError)
		near(t, fmt.Sprintf("%d clients: load", c.count), load, c.load, loadError)
	}
}

// collapses returns in how many of 60 seeds fewer than half of the calls succeed in the last 10 s. The service needs 1 s and 10 ms
// for each request inside, the network 0.1 s each way; calls time out after 3 s and make 3 attempts.
func collapses(t *testing.T, retry, fault string, seconds float64) int {
	t.Helper()
	s := parse(t, fmt.Sprintf(`
version: 1
duration: %gs
interval: 1s
policies: {s.Get: {retry: {max_attempts: 3, timeout: 3s, %s}}}
services: {s: {latency: {mean: 1s, per_request: 10ms}}}
clients: {c: {service: s, policy: s.Get, rate: 40, network: {distribution: exponential, mean: 100ms}}}
faults: {f: {client: c, %s}}
`, seconds, retry, fault))
	collapsed := 0
	for seed := range uint64(60) {
		r, err := s.Run(t.Context(), simulate.Options{Seed: seed + 1})
		if err != nil {
			t.Fatal(err)
		}
		if success(r, 0, seconds-10, seconds) < 0.5 {
			collapsed++
		}
	}
	return collapsed
}

const (
	atOnce  = "backoff: 1ms, backoff_cap: 1ms"
	backoff = "backoff: 20s, backoff_cap: 40s" // full jitter: 0 to 20 s, then 0 to 40 s
	spike   = "at: 20s, for: 5s, load: 2"
	ramp    = "at: 0s, for: 50s, load: 2, shape: spike" // from 40 to 80 and back
)

// TestBackoffHelpsAgainstSpikesOnly: M. Brooker, simple_collapse_sim in https://github.com/mbrooker/simulator_example, over 60 seeds.
func TestBackoffHelpsAgainstSpikesOnly(t *testing.T) {
	long(t)
	n := collapses(t, atOnce, spike, 80)
	t.Logf("%d of 60", n)
	if deviation := math.Sqrt(60 * 0.65 * 0.35); math.Abs(float64(n)-39) > 3*deviation {
		t.Errorf("after a spike, retries at once stay collapsed in %d of 60 seeds, published 39 with a standard error of %.1f", n, deviation)
	}
	if n := collapses(t, backoff, spike, 80); n != 0 {
		t.Errorf("after a spike, retries with backoff stay collapsed in %d of 60 seeds, published none", n)
	}
	for name, retry := range map[string]string{"at once": atOnce, "with backoff": backoff} {
		if n := collapses(t, retry, ramp, 50); n != 60 {
			t.Errorf("after a ramp, retries %s collapse in %d of 60 seeds, published all", name, n)
		}
	}
}
