package main

import (
	"fmt"
	"strconv"
)

// Bar is a goal: a measured number that must not exceed a limit.
type Bar struct {
	Path  string
	Goal  string
	Limit float64
	// Measure returns the number and its derivation; ok is false if a case that it needs was not measured.
	Measure func(Results) (value float64, how string, ok bool)
}

// timeOver is the bar on a path's time as a multiple of another's.
func timeOver(path string, limit float64, scenario, otherScenario, other string) Bar {
	return Bar{
		Path: path, Goal: fmt.Sprintf("≤ %g × %s", limit, other), Limit: limit,
		Measure: func(r Results) (float64, string, bool) {
			mine, ok1 := r.of(scenario, tenet)
			theirs, ok2 := r.of(otherScenario, other)
			ratio := mine.Serial / theirs.Serial
			return ratio, fmt.Sprintf("%.2f × (%s / %s)", ratio, nanos(mine.Serial), nanos(theirs.Serial)), ok1 && ok2
		},
	}
}

func allocations(path string, limit float64, scenario string) Bar {
	return Bar{
		Path: path, Goal: fmt.Sprintf("≤ %g allocations", limit), Limit: limit,
		Measure: func(r Results) (float64, string, bool) {
			mine, ok := r.of(scenario, tenet)
			return float64(mine.Allocs), strconv.FormatInt(mine.Allocs, 10), ok
		},
	}
}

// inParallel is the bar on a path's time in parallel over its time alone. Two independent goroutines on two processors need
// half the wall time per call; with a lock or a shared cache line between them they need more.
func inParallel(scenario string) Bar {
	return Bar{
		Path: "in parallel: " + scenario, Goal: "≤ 1.1 × serial", Limit: 1.1,
		Measure: func(r Results) (float64, string, bool) {
			mine, ok := r.of(scenario, tenet)
			ratio := mine.Parallel / mine.Serial
			return ratio, fmt.Sprintf("%.2f × (%s / %s), %.2f × in processor time",
				ratio, nanos(mine.Parallel), nanos(mine.Serial), ratio*float64(processors())), ok
		},
	}
}

// Bars lists the goals.
func Bars() []Bar {
	const (
		success, stack    = "keyed Do, success, nobody watching", "with retry ratio and rate breaker"
		recorded, timeout = "timeline recorded", "attempt timeout set"
	)
	// Measured: 4.4, of which 2.6 are two readings of the clock, the allocation of the record, and the call's ID.
	unobserved := timeOver(recorded, 5, "timeline", "success", tenet)
	unobserved.Goal = "≤ 5 × the unobserved call"
	peer := timeOver(recorded, 1, "timeline", "success", failsafe)
	peer.Goal = "≤ 1 × failsafe-go, unobserved"
	bare := timeOver(timeout, 1.35, "attempt timeout", "attempt timeout", byHand)
	bare.Goal = "≤ 1.35 × bare context.WithTimeout"
	awaited := timeOver(timeout+", awaited", 1.35, "attempt timeout, awaited", "attempt timeout, awaited", byHand)
	awaited.Goal = bare.Goal
	bars := []Bar{
		timeOver(success, 0.5, "success", "success", cenkalti),
		timeOver(success, 0.5, "success", "success", cenkaltiPerCall),
		timeOver(success, 0.25, "success", "success", failsafe),
		allocations(success, 1, "success"),
		timeOver(stack, 0.35, "breaker closed", "breaker closed", failsafe),
		allocations(stack, 1, "breaker closed"),
		timeOver("three failing attempts", 1.1, "three failing attempts", "three failing attempts", avast),
		timeOver("shared budget", 1.5, "shared budget", "shared budget", ownBudget),
		timeOver("adaptive limit", 1, "adaptive limit", "adaptive limit", failsafe),
		timeOver("bulkhead", 1, "bulkhead", "bulkhead", failsafe),
		timeOver("rate limit", 1, "rate limit", "rate limit", failsafe),
		timeOver("hedging on, fast success", 0.5, "hedge", "hedge", failsafe),
		allocations(recorded, 3, "timeline"),
		unobserved,
		peer,
		bare,
		awaited,
	}
	for _, s := range Scenarios() {
		bars = append(bars, inParallel(s.Name))
	}
	return bars
}
