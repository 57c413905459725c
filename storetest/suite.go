package storetest

import (
	"testing"
	"time"
)

// suiteCase is one behaviour. Cases that need real concurrency never run in a bubble.
type suiteCase[S any] struct {
	name string
	real bool
	run  func(s S)
}

// runCases runs each case on what open opens, in a bubble where there is one.
func runCases[S any](t *testing.T, bubble func(*testing.T, func(*testing.T)), open func(t *testing.T, virtual bool) S, groups ...[]suiteCase[S]) {
	for _, group := range groups {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				if bubble == nil || c.real {
					c.run(open(t, false))
					return
				}
				bubble(t, func(t *testing.T) { c.run(open(t, true)) })
			})
		}
	}
}

// shortTime is the default of the options Short.
func shortTime(bubble, advance bool) time.Duration {
	switch {
	case bubble:
		return 10 * time.Second
	case advance:
		return 10 * time.Minute
	}
	return 500 * time.Millisecond
}

// contestedLease is a lease in real time that some callers outlive and others do not: a fast store has a shorter one.
func contestedLease(bubble, advance bool, short time.Duration) time.Duration {
	switch {
	case bubble:
		return 40 * time.Millisecond
	case advance:
		return 250 * time.Millisecond
	}
	return short / 4
}

// lapse lets d pass, and in real time somewhat more, so that a timer of d is over.
func lapse(t *testing.T, advance func(*testing.T, time.Duration), virtual bool, d time.Duration) {
	if advance != nil {
		advance(t, d)
		return
	}
	if !virtual {
		d += d/10 + 20*time.Millisecond
	}
	time.Sleep(d)
}
