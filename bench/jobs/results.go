package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/tenetdev/tenet/bench/jobs/riversqlite/measure"
)

// Result has the medians of a case over the rounds.
type Result struct {
	Rate        float64       // jobs per second
	CPU, Server time.Duration // per job, of the process and of the database server
	P50, P99    time.Duration // latency over the samples of all rounds
	Samples     int
	Claims      []time.Duration // by backlog
	Dead, Size  int64
	Jobs        int // of a round
	Rounds      int
}

// Results holds the results by scenario and peer.
type Results map[string]map[string]Result

// of returns a result; ok is false if the case was not measured.
func (r Results) of(scenario, peer string) (Result, bool) {
	result, ok := r[scenario][peer]
	return result, ok
}

// measureAll runs rounds of the selected scenarios while the time allows, and reports progress.
func measureAll(ctx context.Context, env *environment, o settings, progress io.Writer) (Results, int, error) {
	all := map[[2]string][]Outcome{}
	began, round := time.Now(), 0
	repeated := time.Duration(0) // duration of a round without the scenarios that run once
	for ; round < o.rounds && (round == 0 || time.Since(began)+repeated <= o.time); round++ {
		repeated = 0
		for _, s := range selected(o) {
			if s.Once && round > 0 {
				continue
			}
			begin := time.Now()
			for range max(s.Turns, 1) {
				for _, c := range s.Cases {
					outcome, err := c.measure(ctx, env, s)
					if err != nil {
						return nil, 0, fmt.Errorf("%s: %s: %w", s.Name, c.Peer, err)
					}
					id := [2]string{s.Name, c.Peer}
					all[id] = append(all[id], outcome)
					fmt.Fprintf(progress, "%4.0f s  round %d  %s: %s: %s\n", time.Since(began).Seconds(), round+1, s.Name, c.Peer, outcome.summary())
				}
			}
			if !s.Once {
				repeated += time.Since(begin)
			}
		}
		if repeated == 0 { // nothing to repeat
			round++
			break
		}
	}
	results := Results{}
	for id, outcomes := range all {
		if results[id[0]] == nil {
			results[id[0]] = map[string]Result{}
		}
		results[id[0]][id[1]] = combine(outcomes)
	}
	return results, round, nil
}

func (c Case) measure(ctx context.Context, env *environment, s Scenario) (Outcome, error) {
	t := s.Task
	if c.Jobs > 0 {
		t.Jobs = c.Jobs
	}
	syscall.Sync() // so that no case waits until the disk has stored the data of the previous one
	return c.Run(ctx, env, t)
}

// combine returns the medians over the rounds.
func combine(outcomes []Outcome) Result {
	middle := func(value func(Outcome) float64) float64 {
		values := make([]float64, len(outcomes))
		for i, o := range outcomes {
			values[i] = value(o)
		}
		return median(values)
	}
	perJob := func(total func(Outcome) time.Duration) time.Duration {
		return time.Duration(middle(func(o Outcome) float64 { return float64(total(o)) / float64(max(o.Jobs, 1)) }))
	}
	first := outcomes[0]
	r := Result{
		CPU:    perJob(func(o Outcome) time.Duration { return o.CPU }),
		Server: perJob(func(o Outcome) time.Duration { return o.Server }),
		Claims: first.Claims, Dead: first.Dead, Size: first.Size, Jobs: first.Jobs, Rounds: len(outcomes),
	}
	if first.Took > 0 {
		r.Rate = middle(func(o Outcome) float64 { return o.Rate() })
	}
	var waits []time.Duration
	for _, o := range outcomes {
		waits = append(waits, o.Waits...)
	}
	r.P50, r.P99, r.Samples = measure.Quantile(waits, 0.5), measure.Quantile(waits, 0.99), len(waits)
	return r
}

// summary is a line of progress.
func (o Outcome) summary() string {
	switch {
	case len(o.Waits) > 0:
		return fmt.Sprintf("p50 %v, p99 %v", measure.Quantile(o.Waits, 0.5), measure.Quantile(o.Waits, 0.99))
	case len(o.Claims) > 0:
		return fmt.Sprint(o.Claims)
	}
	return fmt.Sprintf("%.0f jobs/s", o.Rate())
}

// median is the middle value, or the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
