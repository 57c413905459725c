package simulate_test

import (
	"fmt"
	"testing"

	"github.com/tenetdev/tenet/simulate"
)

// calm runs one client with a policy against a service with a constant latency, long enough for exact counts.
func calm(t *testing.T, policy, latency, fault string) *simulate.Report {
	t.Helper()
	return run(t, fmt.Sprintf(`
version: 1
duration: 100s
policies: {s.Get: %s}
services: {s: {latency: {mean: %s}}}
clients: {c: {service: s, policy: s.Get, rate: 1, arrivals: regular}}
%s`, policy, latency, fault), simulate.Options{})
}

func TestHedgesStartAfterTheirDelay(t *testing.T) {
	const policy = "{retry: {max_attempts: 1}, hedge: {enabled: true, delay: 50ms}}"
	if c := calm(t, policy, "49ms", "").Clients[0]; c.Attempts != c.Calls {
		t.Errorf("hedges although the service is faster than their delay: %+v", c.ClientCounts)
	}
	r := calm(t, policy, "51ms", "")
	if c := r.Clients[0]; c.Attempts != 2*c.Calls || c.Succeeded < 99 {
		t.Errorf("not one hedge per call: %+v", c.ClientCounts)
	}
	if s := r.Services[0]; s.Wasted < 99 {
		t.Errorf("the losers are not wasted: %+v", s.ServiceCounts)
	}
}

func TestTimeoutsEndAttemptsAndCalls(t *testing.T) {
	r := calm(t, "{retry: {max_attempts: 3, backoff: 10ms, jitter: none, timeout: 200ms}}", "201ms", "")
	if c := r.Clients[0]; c.Attempts != 3*c.Calls || c.Reasons["attempts_exhausted"] < 98 {
		t.Errorf("attempts do not time out: %+v", c.ClientTotals)
	}
	r = calm(t, "{retry: {max_attempts: 10, backoff: 100ms, backoff_cap: 100ms, jitter: none, overall_timeout: 450ms}}", "1ms",
		"faults: {f: {service: s, down: true}}")
	if c := r.Clients[0]; c.Attempts != 5*c.Calls || c.Reasons["overall_timeout"] < 98 {
		t.Errorf("calls do not end before the wait that would pass their timeout: %+v", c.ClientTotals)
	}
}

func TestBreakersOpenAndProbeInVirtualTime(t *testing.T) {
	r := calm(t, "{retry: {max_attempts: 1}, circuit: {kind: consecutive, failures: 5, cooldown: 9500ms}}", "1ms",
		"faults: {f: {service: s, down: true}}")
	// Five failures in seconds 1 to 5; then one probe every ten seconds: at 15, 25 … 95.
	if c := r.Clients[0]; c.Attempts != 5+9 || c.Reasons["circuit_open"] != c.Calls-14 {
		t.Errorf("%+v", c.ClientTotals)
	}
}

func TestTokensComeBackInVirtualTime(t *testing.T) {
	r := calm(t, "{retry: {max_attempts: 2, backoff: 1ms, budget: {name: b}}}", "1ms",
		"budgets: {b: {kind: token_bucket, capacity: 10, refill_per_second: 0.5}}\nfaults: {f: {service: s, down: true}}")
	// A full bucket and half a token per second.
	within(t, "attempts", float64(r.Clients[0].Attempts), 58, 60)
}

func TestLimitsLetOneInAfterTheOther(t *testing.T) {
	r := run(t, `
version: 1
duration: 100s
policies: {s.Get: {retry: {max_attempts: 1}, limit: {concurrency: 1, max_wait: 10s}}}
services: {s: {latency: {mean: 100ms}}}
clients: {c: {service: s, policy: s.Get, rate: 9}}
`, simulate.Options{})
	if s := r.Services[0]; s.PeakQueue != 0 || s.Requests < 800 {
		t.Errorf("%+v", s.ServiceTotals)
	}
	within(t, "p99 in seconds, of calls that wait in line", r.Clients[0].Latency.P99, 0.5, 10)
	for _, sample := range r.Services[0].Series {
		if sample.Busy > 1 {
			t.Fatalf("%d requests inside", sample.Busy)
		}
	}
}

func TestQueuesHaveDisciplines(t *testing.T) {
	latency := map[string]float64{}
	for _, discipline := range []string{"fifo", "lifo", "random"} {
		r := run(t, fmt.Sprintf(`
version: 1
duration: 1000s
services: {s: {concurrency: 1, latency: {distribution: exponential, mean: 9ms}, queue: {discipline: %s}}}
clients: {c: {service: s, rate: 100}}
`, discipline), simulate.Options{}).Clients[0]
		latency[discipline] = r.Latency.P50
	}
	// In an M/M/1 queue the mean is the same; the later the last comes first, the lower the median.
	if !(latency["lifo"] < latency["random"] && latency["random"] < latency["fifo"]) {
		t.Errorf("medians %v", latency)
	}
	within(t, "median of an M/M/1 queue at 90 %", latency["fifo"], 0.055, 0.07) // ln 2 · 9 ms / (1 − 0.9) = 62 ms
}

func TestT2AnOutageHitsItsShareOfTheRequests(t *testing.T) {
	r := run(t, `
version: 1
duration: 100s
services: {db: {latency: {mean: 1ms}}}
clients: {web: {service: db, rate: 200}}
faults: {half: {service: db, down: true, share: 0.5}}
`, simulate.Options{})
	within(t, "share of successes", r.Clients[0].Success, 0.48, 0.52)
	if failed := r.Services[0].Failed; failed != 0 {
		t.Errorf("%d requests that the outage spared on arrival failed later", failed)
	}
}
