//go:build unix

package audit_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/tenetdev/tenet/audit"
)

// perEvent runs f and reports events per second of time and per second of CPU time.
func perEvent(b *testing.B, events int, f func()) {
	began := cpuTime(b)
	for b.Loop() {
		f()
	}
	n := float64(events) * float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(n/(cpuTime(b)-began).Seconds(), "events/core-s")
}

func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func BenchmarkVerify(b *testing.B) {
	log, _ := recorded(b, 1, 20_000)
	perEvent(b, len(log), func() {
		if r, err := audit.Verify(context.Background(), log, audit.VerifyOptions{}); err != nil || !r.Intact() {
			b.Fatal(err, r)
		}
	})
}

func BenchmarkReplay(b *testing.B) {
	log, _ := recorded(b, 1, 20_000)
	for _, spill := range []struct {
		name   string
		memory int64
	}{{"memory", 0}, {"disk", 1}} {
		b.Run(spill.name, func(b *testing.B) {
			perEvent(b, len(log), func() {
				r, err := audit.Replay(context.Background(), log, audit.ReplayOptions{Spill: audit.Spill{Memory: spill.memory}})
				if err != nil || r.Diverged > 0 {
					b.Fatal(err, r)
				}
			})
		})
	}
}

func BenchmarkWhatIf(b *testing.B) {
	log, _ := recorded(b, 1, 20_000)
	set := setOf(catalogue(b)...)
	perEvent(b, len(log), func() {
		if _, err := audit.WhatIf(context.Background(), log, set, audit.ReplayOptions{}); err != nil {
			b.Fatal(err)
		}
	})
}
