package demo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// Report is the result of deliveries that ran as calls. Durations are in seconds.
type Report struct {
	Seed           uint64                `json:"seed"`
	Deliveries     int                   `json:"deliveries"`
	Concurrency    int                   `json:"concurrency"`
	Elapsed        float64               `json:"elapsed"`
	Delivered      int                   `json:"delivered"`
	Failed         int                   `json:"failed"`
	FailedByReason map[policy.Reason]int `json:"failed_by_reason"`
	// Unexplained lists deliveries that neither arrived nor failed for a reason, or that arrived although the endpoint did not
	// accept them. It must be empty.
	Unexplained []string `json:"unexplained"`

	Attempts  int `json:"attempts"`
	Retries   int `json:"retries"`
	Hedges    int `json:"hedges"`
	HedgeWins int `json:"hedge_wins"`
	Denied    int `json:"denied"` // attempts that budget or breaker refused

	// Requests is the endpoint's own count, Duplicates its answers to deliveries that it had accepted before.
	Requests   int           `json:"requests"`
	Duplicates int           `json:"duplicates"`
	Faults     map[Fault]int `json:"faults"`
	// Amplification is requests per delivery; Bound is nil if the policies set none.
	Amplification float64 `json:"amplification"`
	Bound         *Bound  `json:"amplification_bound"`

	Latency Latency `json:"latency"`
	// Decisions is a digest of every delivery's attempts, outcomes, reasons and waits, by its ID, and Digest one of them
	// all.
	Decisions map[string]string `json:"decisions"`
	Digest    string            `json:"decisions_digest"`
	Timelines []TimelineStory   `json:"timelines"`
}

// Bound is how many requests the shared retry ratio allows per delivery: 1 + ratio + burst/deliveries.
type Bound struct {
	Ratio float64 `json:"ratio"`
	Burst float64 `json:"burst"`
	Max   float64 `json:"max"`
	Kept  bool    `json:"kept"`
}

// Latency of the deliveries that arrived, in seconds, from the first attempt to the end of the answer.
type Latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// TimelineStory is a timeline and why it is shown.
type TimelineStory struct {
	Why      string           `json:"why"`
	Timeline observe.Timeline `json:"timeline"`
}

// Good reports whether every delivery is accounted for and the bound was kept.
func (r *Report) Good() bool {
	return len(r.Unexplained) == 0 && r.Delivered+r.Failed == r.Deliveries && (r.Bound == nil || r.Bound.Kept)
}

func newReport(o Options, results []result, counts Counts, elapsed time.Duration) Report {
	r := Report{
		Seed: o.Seed, Deliveries: len(results), Concurrency: o.Concurrency, Elapsed: elapsed.Seconds(),
		FailedByReason: map[policy.Reason]int{}, Unexplained: []string{}, Requests: counts.Requests, Faults: counts.Faults,
		Decisions: make(map[string]string, len(results)),
	}
	var latencies []time.Duration
	all := sha256.New()
	for i := range results {
		one := &results[i]
		r.addOutcome(one, counts)
		r.addAttempts(&one.timeline)
		if one.reason == policy.ReasonSuccess {
			latencies = append(latencies, one.took)
		}
		digest := digestOf(&one.timeline)
		r.Decisions[one.delivery.ID] = digest
		fmt.Fprintln(all, one.delivery.ID, digest)
	}
	for _, n := range counts.Accepted {
		r.Duplicates += n - 1
	}
	r.Digest = sum(all)
	r.Amplification = float64(r.Requests) / float64(max(r.Deliveries, 1))
	r.Bound = boundOf(o, r.Requests)
	r.Latency = latencyOf(latencies)
	r.Timelines = interesting(results)
	return r
}

func (r *Report) addOutcome(one *result, counts Counts) {
	switch {
	case one.reason == "", one.reason == policy.ReasonSuccess && counts.Accepted[one.delivery.ID] == 0:
		r.Unexplained = append(r.Unexplained, one.delivery.ID)
	case one.reason == policy.ReasonSuccess:
		r.Delivered++
	default:
		r.Failed++
		r.FailedByReason[one.reason]++
	}
}

func (r *Report) addAttempts(t *observe.Timeline) {
	for i := range t.Attempts {
		a := &t.Attempts[i]
		switch {
		case a.Denied:
			r.Denied++
			continue
		case a.HedgeIndex > 0:
			r.Hedges++
			if a.Outcome.Kind == classify.Success {
				r.HedgeWins++
			}
		case a.RetryIndex > 0:
			r.Retries++
		}
		r.Attempts++
	}
}

// digestOf returns a hash of all decisions of a call: without times, only what follows from the policy, the outcomes and the
// seed.
func digestOf(t *observe.Timeline) string {
	attempts := slices.SortedFunc(slices.Values(t.Attempts), func(a, b observe.AttemptRecord) int { return cmp.Compare(a.Attempt, b.Attempt) })
	h := sha256.New()
	for _, a := range attempts {
		fmt.Fprintln(h, a.Attempt, a.RetryIndex, a.HedgeIndex, a.Outcome.Kind, a.Outcome.Reason, int64(a.Backoff), a.BudgetAllowed, a.Denied)
	}
	fmt.Fprintln(h, t.Reason)
	return sum(h)
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:8]) }

// boundOf compares the amplification with the retry ratio that all policies in use share. It returns nil without one.
func boundOf(o Options, requests int) *Bound {
	keys := make([]policy.Key, len(o.Deliveries))
	for i, d := range o.Deliveries {
		keys[i] = keyOf(d.Queue)
	}
	return sharedBound(o.Set, keys, requests, 1)
}

// sharedBound returns the bound of work under the given keys, one for each call or job. Each of the processes has its own
// budget.
func sharedBound(set *policy.Set, keys []policy.Key, requests, processes int) *Bound {
	name := ""
	for i, key := range keys {
		p, err := set.Policy(context.Background(), key)
		if err != nil || i > 0 && p.Retry.Budget.Name != name || p.Hedge.Budget.Name != "" && p.Hedge.Budget.Name != p.Retry.Budget.Name {
			return nil
		}
		name = p.Retry.Budget.Name
	}
	b, ok := set.Budgets()[name]
	if !ok || b.Kind != policy.BudgetRetryRatio || len(keys) == 0 {
		return nil
	}
	calls, burst := float64(len(keys)), b.Burst*float64(processes)
	bound := Bound{Ratio: b.Ratio, Burst: burst, Max: 1 + b.Ratio + burst/calls}
	bound.Kept = float64(requests) <= calls*(1+b.Ratio)+burst
	return &bound
}

func latencyOf(list []time.Duration) Latency {
	if len(list) == 0 {
		return Latency{}
	}
	slices.Sort(list)
	at := func(q float64) float64 { // nearest rank
		rank := int(q*float64(len(list))+0.999999) - 1
		return list[min(max(rank, 0), len(list)-1)].Seconds()
	}
	return Latency{P50: at(0.50), P95: at(0.95), P99: at(0.99), Max: list[len(list)-1].Seconds()}
}

// interesting picks up to three timelines: the delivery that took the most attempts, one that a hedge saved, and one that
// failed.
func interesting(results []result) []TimelineStory {
	most := best(results, func(r *result) int {
		if r.reason != policy.ReasonSuccess {
			return 0
		}
		return r.timeline.Ran()
	})
	hedged := best(results, func(r *result) int {
		won := slices.ContainsFunc(r.timeline.Attempts, func(a observe.AttemptRecord) bool {
			return a.HedgeIndex > 0 && a.Outcome.Kind == classify.Success
		})
		if r == most || !won {
			return 0
		}
		return len(r.timeline.Attempts)
	})
	failed := best(results, func(r *result) int {
		if r.reason == policy.ReasonSuccess {
			return 0
		}
		return len(r.timeline.Attempts)
	})
	var list []TimelineStory
	for _, pick := range []struct {
		why string
		r   *result
	}{{"delivered after the most attempts", most}, {"a hedge answered first", hedged}, {"not delivered", failed}} {
		if pick.r != nil {
			list = append(list, TimelineStory{pick.why + ": " + pick.r.delivery.ID, pick.r.timeline})
		}
	}
	return list
}

// best returns the first result with the highest score, or nil if all score 0.
func best(results []result, score func(*result) int) *result {
	var found *result
	highest := 0
	for i := range results {
		if s := score(&results[i]); s > highest {
			found, highest = &results[i], s
		}
	}
	return found
}
