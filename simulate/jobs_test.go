package simulate_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/simulate"
)

// deliveries is a scenario of jobs without faults.
const deliveries = `
version: 1
duration: 2m
queues:
  mail: {retry: {max_attempts: 4, backoff: 100ms, jitter: none}}
services:
  smtp: {latency: {distribution: exponential, mean: 20ms}, errors: 0.5}
clients:
  shop: {service: smtp, rate: 50, job: {type: send, queue: mail, workers: 2, concurrency: 20}}
`

func TestT2JobsMakeTheAttemptsThatTheirPolicyAllows(t *testing.T) {
	r := run(t, deliveries, simulate.Options{})
	c := r.Clients[0]
	if c.JobType != "send" || c.Calls < 5_800 {
		t.Fatalf("%+v", c.ClientTotals)
	}
	// The closed form for four attempts of which half fail; three standard errors of 6,000 jobs.
	within(t, "attempts per job", c.AttemptsPerCall, 1.875-0.044, 1.875+0.044)
	within(t, "the completed share", c.Success, 0.9375-0.0094, 0.9375+0.0094)
	if c.Reasons["attempts_exhausted"] != c.Failed || c.LostLeases != 0 {
		t.Errorf("dead jobs %v of %d, %d lost leases", c.Reasons, c.Failed, c.LostLeases)
	}
	// Half of the jobs fail once and wait 100 ms; a quarter fails again and waits 200 ms more.
	within(t, "the median time to completion", c.Latency.P50, 0.02, 0.12)
}

func TestJ8AWorkerRunsNoMoreJobsThanItHasSlots(t *testing.T) {
	r := run(t, `
version: 1
duration: 1m
services: {smtp: {latency: {mean: 1s}}}
clients: {shop: {service: smtp, rate: 100, job: {type: send, workers: 3, concurrency: 10}}}
`, simulate.Options{})
	for i, s := range r.Services[0].Series[10:] {
		if s.Busy != 30 {
			t.Fatalf("sample %d: %d requests at once, want 30", i+10, s.Busy)
		}
	}
	if c := r.Clients[0]; c.PeakBacklog < 4000 || c.Series[len(c.Series)-1].Backlog < 4000 {
		t.Errorf("backlog %d, want the 70 jobs per second that nobody runs", c.PeakBacklog)
	}
}

func TestJ6TheJobsOfAKilledWorkerRunAgainAfterTheirLeases(t *testing.T) {
	const text = `
version: 1
duration: 4m
services: {smtp: {latency: {mean: 5s}}}
clients: {shop: {service: smtp, rate: 1, arrivals: regular, job: {type: send, workers: 2, concurrency: 10, lease: 12s}}}
faults: {crash: {client: shop, at: 60s, for: 30s, down: true, share: 0.5}}
`
	r := run(t, text, simulate.Options{})
	c := r.Clients[0]
	if c.LostLeases == 0 || c.LostLeases > 10 || c.Failed != 0 || c.Calls-c.Succeeded > 6 {
		t.Errorf("%+v", c.ClientTotals)
	}
	longest := 0.0
	for _, s := range c.Series {
		longest = max(longest, s.Latency.P99)
	}
	within(t, "the longest time to completion", longest, 5+12-6, 5+12+5+1.5)

	all := run(t, strings.Replace(text, ", share: 0.5", "", 1), simulate.Options{})
	if c := all.Clients[0]; c.Failed != 0 || c.PeakBacklog < 30 || c.Series[len(c.Series)-1].Backlog > 6 {
		t.Errorf("without any worker for 30 s: %+v", c.ClientTotals)
	}
}

func TestJ16RefusedAttemptsOfSimulatedJobsUseUpNone(t *testing.T) {
	r := run(t, read(t, "webhooks.yaml"), simulate.Options{})
	c := r.Clients[0]
	if c.Failed != 0 || c.LostLeases == 0 || c.Success != 1 {
		t.Errorf("%+v", c.ClientTotals)
	}
	// 40 jobs per second for two minutes, of which the breakers let only probes through.
	within(t, "the peak of the backlog", float64(c.PeakBacklog), 4000, 5500)
	within(t, "requests per second in the outage", arrived(r, 0, 150, 240), 0.1, 10)
	if end := c.Series[len(c.Series)-1].Backlog; end > 60 {
		t.Errorf("%d jobs are left at the end", end)
	}
}

func TestJ19LimitsBoundSimulatedJobs(t *testing.T) {
	r := run(t, `
version: 1
duration: 1m
queues: {mail: {limits: [{name: few, concurrency: 7}]}}
services: {smtp: {latency: {mean: 100ms}}}
clients: {shop: {service: smtp, rate: 100, job: {type: send, queue: mail, workers: 2}}}
`, simulate.Options{})
	for i, s := range r.Services[0].Series[10:] {
		if s.Busy > 7 {
			t.Fatalf("sample %d: %d at once", i+10, s.Busy)
		}
	}
	within(t, "jobs per second", float64(r.Clients[0].Succeeded)/60, 65, 70)
}

func TestScenariosOfJobsAreChecked(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"without a type":      {"type: send, ", "", "clients.shop.job.type: missing"},
		"with a call's key":   {"service: smtp,", "service: smtp, policy: a.B,", "clients.shop.policy: does not apply to jobs"},
		"a fault by degrees":  {"clients:", "faults: {f: {client: shop, at: 1s, down: true, shape: ramp}}\nclients:", "faults.f.shape: workers are killed at once"},
		"a fault of nothing":  {"clients:", "faults: {f: {client: shop, at: 1s}}\nclients:", "set load, or down for clients with a job"},
		"a service's fault":   {"clients:", "faults: {f: {client: shop, at: 1s, errors: 1}}\nclients:", "belong to a service"},
		"workers of a caller": {", job: {type: send, queue: mail, workers: 2, concurrency: 20}}", "}\nfaults: {f: {client: shop, at: 1s, down: true}}", "belongs to a service or to clients with a job"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := simulate.Parse("s.yaml", []byte(strings.Replace(deliveries, c.from, c.to, 1)))
			if _, ok := errors.AsType[*policyfile.Error](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestASimulationEndsAtItsBounds(t *testing.T) {
	s := parse(t, deliveries)
	for name, b := range map[string]simulate.Bounds{
		"events":                 {Events: 1000},
		"memory at once":         {Memory: 1},
		"memory in the long run": {Memory: 4 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			slow := parse(t, strings.Replace(deliveries, "mean: 20ms", "mean: 100s", 1))
			if _, err := slow.Run(t.Context(), simulate.Options{Bounds: b}); !errors.Is(err, simulate.ErrTooLarge) {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := s.Run(t.Context(), simulate.Options{Bounds: simulate.Bounds{Events: math.MaxInt, Memory: 64 << 20}}); err != nil {
		t.Error(err)
	}
}

// Graphs of calls with many paths are read in a moment.
func TestManyPathsAreNoCycle(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nduration: 1s\nclients: {c: {service: s0a, rate: 1}}\nservices:\n  s40a: {}\n  s40b: {}\n")
	for i := range 40 {
		for _, side := range []string{"a", "b"} {
			fmt.Fprintf(&b, "  s%d%s: {calls: {s%da: {}, s%db: {}}}\n", i, side, i+1, i+1)
		}
	}
	parse(t, b.String())
}

func TestNumbersBeyondTimeDoNotBreakTheWorld(t *testing.T) {
	const text = `{version: 1, duration: 10s, services: {a: {LATENCY}}, clients: {c: {service: a, RATE}}, faults: {f: {FAULT}}}`
	for name, c := range map[string]struct{ latency, rate, fault string }{
		"hardly any calls":      {"", "rate: 1.0e-300", "service: a, errors: 1, at: 1s"},
		"hardly any load":       {"", "rate: 10, arrivals: regular", "client: c, load: 1.0e-300, at: 1s"},
		"no end of the latency": {"concurrency: 5, latency: {mean: 1000000s, per_request: 1000000s}", "rate: 10", "service: a, latency: 1000000, at: 0"},
		"no gap between calls":  {"", "rate: 1000000000, count: 1000, arrivals: regular", "service: a, errors: 1, at: 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("LATENCY", c.latency, "RATE", c.rate, "FAULT", c.fault).Replace(text)
			_, err := parse(t, text).Run(t.Context(), simulate.Options{Bounds: simulate.Bounds{Events: 100_000}})
			if err != nil && !errors.Is(err, simulate.ErrTooLarge) {
				t.Error(err)
			}
		})
	}
}

func TestTheCallsOfAServiceShareItsBudgets(t *testing.T) {
	r := run(t, `
version: 1
duration: 2m
budgets: {few: {kind: retry_ratio, ratio: 0.1, burst: 1}}
policies:
  a.Good: {retry: {max_attempts: 2, backoff: 1ms, budget: {name: few}}}
  a.Bad: {retry: {max_attempts: 2, backoff: 1ms, budget: {name: few}}}
services: {api: {calls: {bad: {policy: a.Bad}, good: {policy: a.Good}}}, good: {}, bad: {errors: 0.5}}
clients: {web: {service: api, rate: 200}}
`, simulate.Options{})
	bad := r.Clients[0]
	if bad.Name != "api → bad" {
		t.Fatalf("%+v", bad)
	}
	within(t, "attempts at the bad service", bad.AttemptsPerCall, 1.11, 1.2) // 0.1 of its own calls, and of about 0.6 good ones
}
