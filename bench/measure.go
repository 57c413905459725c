package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// Result has the medians of a case over the rounds.
type Result struct {
	Serial   float64 // ns per call on one goroutine
	Parallel float64 // ns of wall time per call, with one goroutine on each processor
	Allocs   int64   // per call
	Bytes    int64
}

// Results holds the results by scenario and peer.
type Results map[string]map[string]Result

// of returns a result; ok is false if the case was not measured.
func (r Results) of(scenario, peer string) (Result, bool) {
	result, ok := r[scenario][peer]
	return result, ok
}

type samples struct {
	serial, parallel []float64
	allocs, bytes    []int64
}

// measure runs rounds of the scenarios whose name contains the text only, and reports progress.
func measure(progress io.Writer, only string, rounds int, each time.Duration) (Results, error) {
	testing.Init()
	if err := flag.CommandLine.Set("test.benchtime", each.String()); err != nil {
		return nil, err
	}
	all := map[[2]string]*samples{}
	for round := range rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, rounds)
		for _, s := range selected(only) {
			for _, c := range s.Cases {
				id := [2]string{s.Name, c.Peer}
				if all[id] == nil {
					all[id] = &samples{}
				}
				all[id].add(s, c)
			}
		}
	}
	results := Results{}
	for id, s := range all {
		if results[id[0]] == nil {
			results[id[0]] = map[string]Result{}
		}
		results[id[0]][id[1]] = Result{
			Serial: median(s.serial), Parallel: median(s.parallel), Allocs: median(s.allocs), Bytes: median(s.bytes),
		}
	}
	return results, nil
}

// add measures a case once, alone and in parallel.
func (s *samples) add(scenario Scenario, c Case) {
	alone := testing.Benchmark(func(b *testing.B) { serial(b, scenario, c) })
	s.serial = append(s.serial, perCall(alone))
	s.allocs = append(s.allocs, alone.AllocsPerOp())
	s.bytes = append(s.bytes, alone.AllocedBytesPerOp())
	together := testing.Benchmark(func(b *testing.B) { parallel(b, scenario, c) })
	s.parallel = append(s.parallel, perCall(together))
}

// perCall keeps the fractions that NsPerOp drops.
func perCall(r testing.BenchmarkResult) float64 { return float64(r.T.Nanoseconds()) / float64(r.N) }

func selected(only string) []Scenario {
	return slices.DeleteFunc(Scenarios(), func(s Scenario) bool { return !strings.Contains(s.Name, only) })
}

// median is the middle value, the lower one of two.
func median[T float64 | int64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
