package storetest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// suiteCase is one behaviour. Cases that need real concurrency never run in a bubble.
type suiteCase[S any] struct {
	name string
	real bool
	run  func(s S)
}

// timing is how the cases of a suite spend their time, as its options say.
type timing struct {
	bubble  func(t *testing.T, run func(t *testing.T))
	advance func(t *testing.T, d time.Duration)
	short   time.Duration
}

// suite is what the cases of all suites have in common.
type suite struct {
	*testing.T
	timing

	ctx     context.Context
	virtual bool
}

// runCases runs each case on what open opens, in a bubble where there is one.
func runCases[S any](t *testing.T, o timing, open func(s suite) S, groups ...[]suiteCase[S]) {
	if o.short == 0 {
		o.short = o.among(10*time.Second, 10*time.Minute, 500*time.Millisecond)
	}
	for _, c := range slices.Concat(groups...) {
		t.Run(c.name, func(t *testing.T) {
			if o.bubble == nil || c.real {
				c.run(open(suite{T: t, timing: o, ctx: context.Background()}))
				return
			}
			o.bubble(t, func(t *testing.T) { c.run(open(suite{T: t, timing: o, ctx: context.Background(), virtual: true})) })
		})
	}
}

// among chooses by the options that are set.
func (o timing) among(bubble, advance, neither time.Duration) time.Duration {
	switch {
	case o.bubble != nil:
		return bubble
	case o.advance != nil:
		return advance
	}
	return neither
}

// contestedLease is a lease in real time that some callers outlive and others do not: a fast store has a shorter one.
func (s *suite) contestedLease() time.Duration {
	return s.among(40*time.Millisecond, 250*time.Millisecond, s.short/4)
}

// must fails the case unless err is want, which may be nil.
func (s *suite) must(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("error %v, want %v", err, want)
	}
}

// need fails the case at once for an error.
func (s *suite) need(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// ok fails the case at once for an error.
func (s *suite) ok(errs ...error) {
	s.Helper()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
}

// report fails the case, from any goroutine, for an error that is not expected.
func (s *suite) report(what string, err error, expected ...error) {
	s.Helper()
	if err != nil && !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		s.Errorf("%s: %v", what, err)
	}
}

// count counts those of several calls at once that are not refused.
func (s *suite) count(n *atomic.Int64, err, refused error) {
	s.Helper()
	s.report("one of several at once", err, refused)
	if err == nil {
		n.Add(1)
	}
}

// lapse lets d pass, and in real time somewhat more, so that a timer of d is over.
func (s *suite) lapse(d time.Duration) {
	if s.advance != nil {
		s.advance(s.T, d)
		return
	}
	if !s.virtual {
		d += d/10 + 20*time.Millisecond
	}
	time.Sleep(d)
}
