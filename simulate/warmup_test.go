package simulate_test

import (
	"testing"

	"github.com/tenetdev/tenet/simulate"
)

// TestT2TotalsCountNoEndWithoutItsBeginning: what is under way when the warm-up ends is left out of the totals with its end.
func TestT2TotalsCountNoEndWithoutItsBeginning(t *testing.T) {
	// One call a second, each of 3 s: from 9 to 19 s after the start 11 calls begin, of which 8 end before 20 s.
	r := run(t, `
version: 1
duration: 20s
warmup: 8500ms
services: {s: {concurrency: 3, latency: {mean: 3s}}}
clients: {c: {service: s, rate: 1, arrivals: regular}}
`, simulate.Options{})
	wantClient := simulate.ClientCounts{Calls: 11, Attempts: 11, Succeeded: 8}
	if c := r.Clients[0]; c.ClientCounts != wantClient || c.Success != 1 {
		t.Errorf("calls %+v, want %+v", c.ClientTotals, wantClient)
	}
	wantService := simulate.ServiceCounts{Requests: 11, Served: 8}
	if s := r.Services[0]; s.ServiceCounts != wantService {
		t.Errorf("requests %+v, want %+v", s.ServiceCounts, wantService)
	}
	served, succeeded := int64(0), int64(0)
	for i, s := range r.Services[0].Series {
		served, succeeded = served+s.Served, succeeded+r.Clients[0].Series[i].Succeeded
	}
	if served != 16 || succeeded != 16 {
		t.Errorf("the samples, which also cover the warm-up, count %d served and %d succeeded; want 16", served, succeeded)
	}

	// The same for jobs, calls that fail, requests that are refused, and a peak in the warm-up.
	r = run(t, `
version: 1
duration: 30s
warmup: 10500ms
queues: {q: {retry: {max_attempts: 1}}}
services:
  s: {concurrency: 1, queue: {limit: 1}, latency: {mean: 2s}}
  down: {errors: 1, latency: {mean: 3s}}
clients:
  c: {service: down, rate: 2, arrivals: regular}
  d: {service: s, rate: 2, arrivals: regular}
  j: {service: down, rate: 2, arrivals: regular, job: {type: t, queue: q}}
faults: {early: {client: j, at: 0s, for: 2s, load: 50}}
`, simulate.Options{})
	for _, c := range r.Clients {
		reasons := int64(0)
		for _, n := range c.Reasons {
			reasons += n
		}
		if c.Succeeded+c.Failed > c.Calls || reasons != c.Failed || c.Calls != 39 || c.Failed < 20 {
			t.Errorf("%s: %+v", c.Name, c.ClientTotals)
		}
	}
	if peak := r.Clients[2].PeakBacklog; peak > 50 {
		t.Errorf("a peak backlog of %d, which was in the warm-up", peak)
	}
	for _, s := range r.Services {
		if ends := s.Served + s.Refused + s.Dropped; ends > s.Requests {
			t.Errorf("%s: %+v", s.Name, s.ServiceCounts)
		}
	}
}
