package circuit

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

const ms, sec = time.Millisecond, time.Second

func consecutive(failures, probes int) policy.Circuit {
	return policy.Circuit{Kind: policy.CircuitConsecutive, Failures: failures, Cooldown: 5 * sec, Probes: probes}
}

func rate(share float64, minimum int) policy.Circuit {
	return policy.Circuit{Kind: policy.CircuitRate, FailureRate: share, MinimumCalls: minimum, Window: 10 * sec, Cooldown: 5 * sec, Probes: 1}
}

func slow(share float64, minimum int) policy.Circuit {
	return policy.Circuit{Kind: policy.CircuitSlow, SlowRate: share, SlowAfter: 100 * ms, MinimumCalls: minimum, Window: 10 * sec, Cooldown: 5 * sec, Probes: 1}
}

// attempt runs one attempt through b and returns the change that its end caused.
func attempt(t *testing.T, b *Breaker, r Result, took, now time.Duration) Transition {
	t.Helper()
	ticket, _, ok := b.Acquire(now, false)
	if !ok {
		t.Fatalf("at %v: refused while %v", now, b.State(now))
	}
	return b.Done(ticket, r, took, now)
}

// opened makes a breaker that opened at 0s with a cooldown until 5s.
func opened(t *testing.T, probes int) *Breaker {
	t.Helper()
	b := New(consecutive(1, probes))
	if tr := attempt(t, b, Failure, 0, 0); tr != (Transition{Closed, Open}) {
		t.Fatalf("transition %v", tr)
	}
	return b
}

func probe(t *testing.T, b *Breaker, now time.Duration) Ticket {
	t.Helper()
	ticket, _, ok := b.Acquire(now, false)
	if !ok || !ticket.Probe() {
		t.Fatalf("at %v: no probe while %v", now, b.State(now))
	}
	return ticket
}

func TestStateString(t *testing.T) {
	got := []string{Closed.String(), Open.String(), HalfOpen.String(), State(9).String()}
	if diff := cmp.Diff([]string{"closed", "open", "half_open", "State(9)"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestR11ConsecutiveOpens(t *testing.T) {
	tests := []struct {
		name    string
		results []Result
		want    State
	}{
		{"two failures", []Result{Failure, Failure}, Closed},
		{"three failures", []Result{Failure, Failure, Failure}, Open},
		{"a success between", []Result{Failure, Failure, Success, Failure, Failure}, Closed},
		{"three after a success", []Result{Failure, Success, Failure, Failure, Failure}, Open},
		{"ignored between", []Result{Failure, Failure, Ignored, Failure}, Open},
		{"ignored only", []Result{Ignored, Ignored, Ignored, Ignored}, Closed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New(consecutive(3, 1))
			for _, r := range tt.results {
				attempt(t, b, r, 0, 0)
			}
			if got := b.State(0); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestR11RateOpens(t *testing.T) {
	const S, F, I = Success, Failure, Ignored
	tests := []struct {
		name    string
		share   float64
		results []Result
		want    State
	}{
		{"too few calls", 0.5, []Result{F, F, F}, Closed},
		{"all of the minimum", 0.5, []Result{F, F, F, F}, Open},
		{"exactly the share", 0.5, []Result{S, F, S, F}, Open},
		{"below the share", 0.5, []Result{S, S, S, F, F}, Closed},
		{"ignored attempts are not calls", 0.5, []Result{F, F, F, I, I}, Closed},
		{"three tenths are exact", 0.3, []Result{S, S, S, S, S, S, S, F, F, F}, Open},
		{"a share of 1", 1, []Result{F, F, F, S, F, F}, Closed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New(rate(tt.share, 4))
			for _, r := range tt.results {
				attempt(t, b, r, time.Hour, sec)
			}
			if got := b.State(sec); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestR11SlowOpens(t *testing.T) {
	type call struct {
		r    Result
		took time.Duration
	}
	quick, atLimit, late := call{Success, ms}, call{Success, 100 * ms}, call{Success, 100*ms + 1}
	quickFailure, lateFailure, lateIgnored := call{Failure, ms}, call{Failure, sec}, call{Ignored, sec}
	tests := []struct {
		name  string
		calls []call
		want  State
	}{
		{"slow successes", []call{late, late, late, late}, Open},
		{"half of them", []call{quick, late, quick, late}, Open},
		{"fewer", []call{quick, quick, quick, late, late}, Closed},
		{"just in time", []call{atLimit, atLimit, atLimit, atLimit}, Closed},
		{"quick failures are not slow", []call{quickFailure, quickFailure, quickFailure, quickFailure, quickFailure}, Closed},
		{"quick failures are calls", []call{quickFailure, quickFailure, late, late}, Open},
		{"slow failures", []call{lateFailure, lateFailure, lateFailure, lateFailure}, Open},
		{"ignored", []call{lateIgnored, lateIgnored, lateIgnored, lateIgnored}, Closed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New(slow(0.5, 4))
			for _, c := range tt.calls {
				attempt(t, b, c.r, c.took, sec)
			}
			if got := b.State(sec); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestR11WindowSlides(t *testing.T) {
	tests := []struct {
		name string
		// Failures at these times, of a breaker that opens at 3 failures in 10 s.
		at   []time.Duration
		want State
	}{
		{"within the window", []time.Duration{0, 5 * sec, 9999 * ms}, Open},
		{"the first has expired", []time.Duration{999 * ms, 5 * sec, 10 * sec}, Closed},
		{"the second makes up for it", []time.Duration{0, 5 * sec, 6 * sec, 12 * sec}, Open},
		{"nothing happens for a window", []time.Duration{sec, sec, 11 * sec}, Closed},
		{"nothing happens for a day", []time.Duration{sec, sec, 24 * time.Hour}, Closed},
		{"after a day", []time.Duration{sec, 24 * time.Hour, 24*time.Hour + sec, 24*time.Hour + 2*sec}, Open},
		{"the clock was read in another order", []time.Duration{15 * sec, 14 * sec, 13 * sec}, Open},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New(rate(0.01, 3))
			for _, now := range tt.at {
				attempt(t, b, Failure, 0, now)
			}
			last := tt.at[len(tt.at)-1]
			if got := b.State(last); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// TestR11SuccessesExpire: old successes do not hide an outage that begins after a pause.
func TestR11SuccessesExpire(t *testing.T) {
	b := New(rate(0.5, 4))
	for range 1000 {
		attempt(t, b, Success, 0, sec)
	}
	for range 4 {
		attempt(t, b, Failure, 0, time.Hour)
	}
	if got := b.State(time.Hour); got != Open {
		t.Errorf("%v, want open", got)
	}
}

func TestR11OpenRefusesUntilCooledDown(t *testing.T) {
	b := opened(t, 1)
	for _, now := range []time.Duration{0, sec, 5*sec - 1} {
		if _, tr, ok := b.Acquire(now, false); ok || tr.Changed() {
			t.Errorf("at %v: admitted %v, transition %v", now, ok, tr)
		}
		if _, ok := b.AcquireClosed(); ok {
			t.Error("an open breaker reported closed")
		}
		if s, ok := b.Look(now); s != Open || ok {
			t.Errorf("at %v: Look = %v %v", now, s, ok)
		}
	}
	ticket, tr, ok := b.Acquire(5*sec, false)
	if !ok || !ticket.Probe() || tr != (Transition{Open, HalfOpen}) {
		t.Errorf("after the cooldown: %v %v %v", ticket, tr, ok)
	}
}

func TestR11LookChangesNothing(t *testing.T) {
	b := opened(t, 1)
	for range 3 {
		if s, ok := b.Look(5 * sec); s != HalfOpen || !ok {
			t.Fatalf("Look = %v %v, want a free probe", s, ok)
		}
	}
	if s, ok := b.Look(sec); s != Open || ok {
		t.Errorf("Look at an earlier time = %v %v: a later Look made the breaker half-open", s, ok)
	}
	probe(t, b, 5*sec)
	if s, ok := b.Look(5 * sec); s != HalfOpen || ok {
		t.Errorf("Look = %v %v, want no free probe", s, ok)
	}
}

func TestR11HalfOpenAdmitsALimitedNumberOfProbes(t *testing.T) {
	b := opened(t, 2)
	one, two := probe(t, b, 5*sec), probe(t, b, 5*sec)
	if _, _, ok := b.Acquire(6*sec, false); ok {
		t.Fatal("a third probe")
	}
	if tr := b.Done(one, Success, 0, 6*sec); tr.Changed() {
		t.Errorf("closed after one success of two: %v", tr)
	}
	three := probe(t, b, 6*sec)
	if tr := b.Done(three, Success, 0, 6*sec); tr != (Transition{HalfOpen, Closed}) {
		t.Errorf("second success: %v", tr)
	}
	if tr := b.Done(two, Failure, 0, 6*sec); tr.Changed() {
		t.Errorf("a late probe: %v", tr)
	}
}

func TestR11HalfOpenAdmitsNoHedges(t *testing.T) {
	b := New(consecutive(1, 2))
	if _, _, ok := b.Acquire(0, true); !ok {
		t.Error("a closed breaker refused a hedge")
	}
	b = opened(t, 2)
	if _, tr, ok := b.Acquire(5*sec, true); ok || tr.Changed() {
		t.Error("a hedge became the first probe")
	}
	probe(t, b, 5*sec)
	if _, _, ok := b.Acquire(5*sec, true); ok {
		t.Error("a hedge took a probe's slot")
	}
}

func TestR11ProbeFreesItsSlot(t *testing.T) {
	for name, r := range map[string]Result{"success": Success, "failure": Failure, "ignored": Ignored} {
		t.Run(name, func(t *testing.T) {
			b := opened(t, 2)
			now := 5 * sec
			for range 20 {
				one, two := probe(t, b, now), probe(t, b, now)
				b.Done(one, Ignored, 0, now)
				b.Done(two, r, 0, now)
				if b.State(now) == Closed {
					break
				}
				now += b.Wait(now)
			}
			if s, ok := b.Look(now); !ok {
				t.Errorf("bricked: %v", s)
			}
		})
	}
}

func TestR11IgnoredProbeDecidesNothing(t *testing.T) {
	b := opened(t, 1)
	for range 5 {
		if tr := b.Done(probe(t, b, 6*sec), Ignored, time.Hour, 6*sec); tr.Changed() {
			t.Fatalf("transition %v", tr)
		}
	}
}

func TestR11FailedProbeStartsTheCooldownAgain(t *testing.T) {
	b := opened(t, 2)
	one, two := probe(t, b, 6*sec), probe(t, b, 6*sec)
	if tr := b.Done(one, Failure, 0, 7*sec); tr != (Transition{HalfOpen, Open}) {
		t.Fatalf("transition %v", tr)
	}
	if tr := b.Done(two, Success, 0, 8*sec); tr.Changed() || b.State(8*sec) != Open {
		t.Errorf("the other probe's success: %v", tr)
	}
	if s := b.State(12*sec - 1); s != Open {
		t.Errorf("%v before the end of the new cooldown", s)
	}
	// Both slots are free again, and successes before the failure do not count.
	one, two = probe(t, b, 12*sec), probe(t, b, 12*sec)
	b.Done(one, Success, 0, 12*sec)
	if s := b.State(12 * sec); s != HalfOpen {
		t.Errorf("%v after one success of two", s)
	}
	b.Done(two, Success, 0, 12*sec)
	if s := b.State(12 * sec); s != Closed {
		t.Errorf("%v after two successes", s)
	}
}

func TestR11SlowProbe(t *testing.T) {
	tests := []struct {
		name string
		r    Result
		took time.Duration
		want Transition
	}{
		{"quick success", Success, ms, Transition{HalfOpen, Closed}},
		{"slow success", Success, sec, Transition{HalfOpen, Open}},
		{"quick failure", Failure, ms, Transition{HalfOpen, Open}},
		{"slow ignored", Ignored, sec, Transition{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New(slow(0.5, 1))
			attempt(t, b, Success, sec, 0)
			if got := b.Done(probe(t, b, 5*sec), tt.r, tt.took, 6*sec); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestR11StaleTicketsChangeNothing(t *testing.T) {
	b := New(consecutive(2, 1))
	var old []Ticket
	for range 6 {
		ticket, _, _ := b.Acquire(0, false)
		old = append(old, ticket)
	}
	b.Done(old[0], Failure, 0, 0)
	b.Done(old[1], Failure, 0, 0)
	if tr := b.Done(old[2], Success, 0, sec); tr.Changed() {
		t.Errorf("a late success while open: %v", tr)
	}
	late := probe(t, b, 5*sec)
	if tr := b.Done(old[3], Failure, 0, 5*sec); tr.Changed() {
		t.Errorf("a late failure while half open: %v", tr)
	}
	if _, ok := b.Look(5 * sec); ok {
		t.Error("a late failure freed a probe's slot")
	}
	b.Done(late, Success, 0, 5*sec)
	for _, ticket := range append(old[4:], late, Ticket{}) {
		if tr := b.Done(ticket, Failure, 0, 6*sec); tr.Changed() {
			t.Errorf("a late failure while closed again: %v", tr)
		}
	}
	attempt(t, b, Failure, 0, 6*sec)
	if b.State(6*sec) != Closed {
		t.Error("late failures counted")
	}
}

func TestR11ClosesWithoutCounts(t *testing.T) {
	b := New(rate(0.5, 2))
	attempt(t, b, Failure, 0, 0)
	attempt(t, b, Failure, 0, 0)
	b.Done(probe(t, b, 5*sec), Success, 0, 5*sec)
	attempt(t, b, Failure, 0, 5*sec)
	if s := b.State(5 * sec); s != Closed {
		t.Errorf("%v: failures from before it opened still count", s)
	}
}

func TestR11CountsFromTheMomentItCloses(t *testing.T) {
	c := rate(0.5, 2)
	c.Cooldown = 100 * ms // closes again in the bucket in which it opened
	b := New(c)
	attempt(t, b, Failure, 0, 0)
	attempt(t, b, Failure, 0, 0)
	b.Done(probe(t, b, 100*ms), Success, 0, 100*ms)
	for _, r := range []Result{Success, Success, Success, Failure, Failure} {
		if tr := attempt(t, b, r, 0, 100*ms); tr.Changed() {
			t.Error("opened at 2 failures of 5")
		}
	}
}

func TestJ16Wait(t *testing.T) {
	b := New(consecutive(1, 2))
	if w := b.Wait(0); w != 0 {
		t.Errorf("closed: %v", w)
	}
	b = opened(t, 2)
	if w := b.Wait(2 * sec); w != 3*sec {
		t.Errorf("open for 2s of 5s: %v", w)
	}
	if w := b.Wait(time.Hour); w != 0 {
		t.Errorf("cooled down: %v", w)
	}
	probe(t, b, 6*sec)
	if w := b.Wait(6 * sec); w != 0 {
		t.Errorf("a probe's slot is free: %v", w)
	}
	probe(t, b, 6*sec)
	if w := b.Wait(6 * sec); w != 5*sec {
		t.Errorf("no slot is free: %v, want the cooldown", w)
	}
}

func TestR11UpdateKeepsState(t *testing.T) {
	t.Run("counts", func(t *testing.T) {
		b := New(consecutive(5, 1))
		attempt(t, b, Failure, 0, 0)
		attempt(t, b, Failure, 0, 0)
		b.Update(consecutive(3, 1))
		if tr := attempt(t, b, Failure, 0, 0); !tr.Changed() {
			t.Error("two failures from before the update are lost, or its threshold is not in force")
		}
	})
	t.Run("open, with another cooldown", func(t *testing.T) {
		b := opened(t, 1)
		c := consecutive(1, 1)
		c.Cooldown = 2 * sec
		if tr := b.Update(c); tr.Changed() || b.State(sec) != Open || b.State(2*sec) != HalfOpen {
			t.Errorf("transition %v, then %v and %v", tr, b.State(sec), b.State(2*sec))
		}
	})
	t.Run("half open, with more probes", func(t *testing.T) {
		b := opened(t, 1)
		ticket := probe(t, b, 5*sec)
		b.Update(consecutive(1, 2))
		probe(t, b, 5*sec)
		if tr := b.Done(ticket, Success, 0, 5*sec); tr.Changed() {
			t.Error("one success closed a breaker that asks for two")
		}
	})
	t.Run("window", func(t *testing.T) {
		b := New(rate(0.5, 4))
		attempt(t, b, Failure, 0, 30*sec)
		attempt(t, b, Failure, 0, 31*sec)
		attempt(t, b, Success, 0, 31*sec)
		c := rate(0.5, 4)
		c.Window = 100 * sec
		b.Update(c)
		if tr := attempt(t, b, Failure, 0, 50*sec); !tr.Changed() {
			t.Error("the counts of the old window are lost")
		}
	})
	t.Run("window, shorter", func(t *testing.T) {
		c := rate(0.5, 2)
		c.Window = 100 * sec
		b := New(c)
		attempt(t, b, Success, 0, 0) // in a bucket that would end at 10s
		c.Window = sec
		b.Update(c)
		for _, r := range []Result{Success, Success, Success, Failure, Failure} {
			if tr := attempt(t, b, r, 0, 5*sec); tr.Changed() {
				t.Error("the latest successes are not in the window")
			}
		}
	})
	t.Run("window, expired", func(t *testing.T) {
		b := New(rate(0.5, 2))
		attempt(t, b, Failure, 0, 30*sec)
		c := rate(0.5, 2)
		c.Window = sec
		b.Update(c)
		if tr := attempt(t, b, Failure, 0, 32*sec); tr.Changed() {
			t.Error("a failure of 2s ago counts in a window of 1s")
		}
	})
}

func TestR11UpdateOfAnotherKindStartsClosed(t *testing.T) {
	b := opened(t, 1)
	ticket := probe(t, b, 5*sec)
	if tr := b.Update(rate(0.5, 2)); tr != (Transition{HalfOpen, Closed}) {
		t.Errorf("transition %v", tr)
	}
	if tr := b.Done(ticket, Failure, 0, 5*sec); tr.Changed() {
		t.Errorf("the old kind's probe: %v", tr)
	}
	attempt(t, b, Failure, 0, 6*sec)
	if tr := attempt(t, b, Failure, 0, 6*sec); tr != (Transition{Closed, Open}) {
		t.Errorf("the new kind does not count: %v", tr)
	}
}

// TestSuccessTakesNoLockAndNoMemory holds the lock: successes of a closed breaker would block here if they took it.
func TestSuccessTakesNoLockAndNoMemory(t *testing.T) {
	for _, c := range []policy.Circuit{consecutive(3, 1), rate(0.5, 4), slow(0.5, 4)} {
		t.Run(string(c.Kind), func(t *testing.T) {
			b := New(c)
			attempt(t, b, Failure, 0, sec)
			attempt(t, b, Success, 0, sec)
			b.mu.Lock()
			defer b.mu.Unlock()
			if n := testing.AllocsPerRun(100, func() { attempt(t, b, Success, ms, sec) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func TestR11ConcurrentCountIsExact(t *testing.T) {
	const workers, times = 8, 1000
	// The breaker opens at the last failure, and only if none of the 16,000 attempts is lost.
	b := New(rate(0.5, 2*workers*times))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range times {
				now := time.Duration(w+i) * ms // all within the window, over several buckets
				for _, r := range []Result{Success, Failure} {
					ticket, _, ok := b.Acquire(now, false)
					if !ok {
						break // the last failure opened it
					}
					b.Done(ticket, r, 0, now)
				}
			}
		})
	}
	wg.Wait()
	if s := b.State(2 * sec); s != Open {
		t.Errorf("%v with %+v", s, b.window.total)
	}
}

// TestR11ConcurrentProbesNeverBlockTheBreaker runs failures, cancellations, probes and updates concurrently: the breaker never admits
// more probes at a time than allowed, and recovers as soon as the operation does.
func TestR11ConcurrentProbesNeverBlockTheBreaker(t *testing.T) {
	const workers, probes = 8, 2
	c := consecutive(2, probes)
	c.Cooldown = 10
	b := New(c)
	var mu sync.Mutex
	var clock time.Duration
	tick := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		clock++
		return clock
	}
	inFlight := map[phase]int{} // guarded by mu; an entry is removed before its slot is freed, so never too high
	most := 0
	count := func(t Ticket, by int) {
		mu.Lock()
		defer mu.Unlock()
		inFlight[t.phase] += by
		most = max(most, inFlight[t.phase])
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range 2000 {
				ticket, _, ok := b.Acquire(tick(), i%7 == 0)
				if !ok {
					continue
				}
				if ticket.Probe() {
					count(ticket, 1)
					runtime.Gosched()
					count(ticket, -1)
				}
				b.Done(ticket, Result((w+i)%3), 0, tick())
				if i%100 == 0 {
					c := c
					c.Failures = 1 + i%3
					b.Update(c)
				}
			}
		})
	}
	wg.Wait()
	if most < 1 || most > probes {
		t.Errorf("%d probes at a time, want 1 to %d", most, probes)
	}
	now := clock + 100
	for range probes + 1 {
		ticket, _, ok := b.Acquire(now, false)
		if !ok {
			t.Fatalf("bricked: %v", b.State(now))
		}
		b.Done(ticket, Success, 0, now)
	}
	if s := b.State(now); s != Closed {
		t.Errorf("%v after %d successes", s, probes)
	}
}
