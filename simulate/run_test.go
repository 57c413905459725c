package simulate_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/simulate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// everything uses every mechanism, distribution and discipline that draws random numbers or keeps time.
const everything = `
version: 1
duration: 60s
policies:
  api.Get:
    retry: {max_attempts: 4, backoff: 50ms, backoff_cap: 1s, timeout: 500ms, overall_timeout: 5s, budget: {name: shared}}
    circuit: {kind: rate, failure_rate: 0.5, minimum_calls: 20, window: 10s, cooldown: 1s}
    limit: {concurrency: 5, max_wait: 200ms}
  db.Read:
    retry: {max_attempts: 2, backoff: 10ms, timeout: 200ms}
    hedge: {enabled: true, trigger: p95, delay: 50ms}
queues:
  mail: {retry: {max_attempts: 3, backoff: 500ms}, circuit: {kind: consecutive, failures: 30, cooldown: 2s}, limits: [{name: few, concurrency: 25}]}
budgets:
  shared: {kind: token_bucket, capacity: 100, refill_per_second: 50}
services:
  api: {concurrency: 30, latency: {distribution: pareto, mean: 5ms}, calls: {db: {policy: db.Read}}}
  db: {concurrency: 40, latency: {distribution: lognormal, mean: 40ms, deviation: 60ms}, errors: 0.02, queue: {discipline: random}}
clients:
  web: {service: api, policy: api.Get, count: 20, rate: 20, network: {distribution: normal, mean: 2ms, deviation: 1ms}}
  shop: {service: db, rate: 100, job: {type: send, queue: mail, workers: 3, concurrency: 10, lease: 5s}}
faults:
  slow: {service: db, at: 20s, for: 10s, latency: 8, share: 0.5}
  busy: {client: web, at: 40s, for: 10s, load: 3, shape: spike}
  crash: {client: shop, at: 25s, for: 15s, down: true, share: 0.5}
`

func parse(t testing.TB, text string) *simulate.Scenario {
	t.Helper()
	s, err := simulate.Parse("scenario.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t testing.TB, text string, o simulate.Options) *simulate.Report {
	t.Helper()
	r, err := parse(t, text).Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func hashOf(t testing.TB, r *simulate.Report) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])
}

// golden is the hash of the report of everything, where the compiler does not fuse floating-point operations.
const golden = "7d3a41e1a925f570e1afa3b0ef032047c730b22d6b3eacd719cfb9d4214185b2"

// fuses reports whether this build rounds a product and a sum once instead of twice, as on arm64 and with GOAMD64=v3. Conversions in
// this package would not prevent that: package math, which draws the latencies, is built the same way.
func fuses() bool {
	x := fused
	return x*x+minusOne != float64(x*x)+minusOne
}

var fused, minusOne = 1 + 0x1p-30, -1.0 // variables, so that the compiler does not compute with them

func TestT2SameSeedSameBytesOnEveryPlatform(t *testing.T) {
	first := run(t, everything, simulate.Options{})
	if got := hashOf(t, first); got != golden && !fuses() {
		t.Errorf("the report's hash is %s, want %s", got, golden)
	}
	if hashOf(t, run(t, everything, simulate.Options{})) != hashOf(t, first) {
		t.Error("two runs differ")
	}
	if hashOf(t, run(t, everything, simulate.Options{Seed: 2})) == hashOf(t, first) {
		t.Error("another seed gives the same report")
	}
	for _, reason := range []string{"attempts_exhausted", "circuit_open", "concurrency_limited"} {
		if first.Clients[2].Reasons[reason] == 0 {
			t.Errorf("no call ended with %s: %v", reason, first.Clients[2].Reasons)
		}
	}
	if jobs := first.Clients[1]; jobs.LostLeases == 0 || jobs.Succeeded == 0 || jobs.Attempts <= jobs.Calls {
		t.Errorf("jobs: %+v", jobs.ClientTotals)
	}
	if hedged := first.Clients[0]; hedged.Name != "api → db" || hedged.AttemptsPerCall < 1.1 {
		t.Errorf("no hedges: %+v", hedged.ClientTotals)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := parse(t, everything).Run(ctx, simulate.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestT2AFaultMayLowerTheLoad: a tenth of 100 calls per second for a quarter of the time.
func TestT2AFaultMayLowerTheLoad(t *testing.T) {
	for _, arrivals := range []string{"poisson", "regular"} {
		r := run(t, "version: 1\nduration: 200s\nservices: {s: {}}\nclients: {c: {service: s, rate: 100, arrivals: "+arrivals+"}}\n"+
			"faults: {night: {client: c, at: 50s, for: 50s, load: 0.1}}\n", simulate.Options{})
		if got := r.Clients[0].Calls; got < 15000 || got > 16000 {
			t.Errorf("%s: %d calls instead of about 15,500", arrivals, got)
		}
	}
}

// TestT2RegularArrivalsFollowTheLoad: one call in 10 s, 100 times as many for 5 s between two calls, and hardly any for 100 s.
func TestT2RegularArrivalsFollowTheLoad(t *testing.T) {
	for faults, want := range map[string]int64{
		"{client: c, at: 11s, for: 5s, load: 100}": 99 + 50, "{client: c, at: 15s, for: 100s, load: 0.001}": 99 - 10, "{client: c, at: 0s, for: 500s, load: 3}": 99 + 100,
	} {
		r := run(t, "version: 1\nduration: 1000s\nservices: {s: {}}\nclients: {c: {service: s, rate: 0.1, arrivals: regular}}\n"+
			"faults: {f: "+faults+"}\n", simulate.Options{})
		if got := r.Clients[0].Calls; got < want-1 || got > want+1 {
			t.Errorf("%s: %d calls, want about %d", faults, got, want)
		}
	}
}

// TestT2RegularArrivalsAreEvenAtAnyLoad: of calls that take 0.9 s each, one each second, none waits before the load rises by half.
func TestT2RegularArrivalsAreEvenAtAnyLoad(t *testing.T) {
	r := run(t, "version: 1\nduration: 100s\nservices: {s: {concurrency: 1, latency: {mean: 900ms}}}\n"+
		"clients: {c: {service: s, rate: 1, arrivals: regular}}\nfaults: {f: {client: c, at: 99s, for: 1s, load: 1.5}}\n", simulate.Options{})
	if got := r.Clients[0].Latency; got.P50 > 0.95 || got.P99 > 0.95 {
		t.Errorf("latencies %+v", got)
	}
}
