package sharing

import (
	"testing"
	"testing/synctest"
	"time"
)

// newWorld makes a pool and n processes, of which each has exchanged four times.
func newWorld(terms Terms, n int) *world {
	w := &world{terms: terms, starts: int64(n), begin: time.Now()}
	for i := range n {
		w.lots = append(w.lots, detached(terms))
		w.lots[i].link.id = string(rune('a' + i))
	}
	for range 4 {
		for i := range w.lots {
			w.exchange(i, "stored")
		}
	}
	return w
}

// drain spends what a lot has, one token at a time, and returns how many it had.
func drain(l *Lot) (n int) {
	for l.Spend(1) {
		n++
	}
	return n
}

func TestB1ALotFollowsTheDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(Terms{Capacity: 100, Earn: 0.1}, 1)
		l := w.lots[0]
		for _, c := range []struct{ spend, held int64 }{{0, 1}, {1, 2}, {2, 4}, {0, 2}, {0, 1}, {0, 1}} {
			for range c.spend {
				if !l.Spend(1) {
					t.Fatal("refused")
				}
			}
			w.exchange(0, "stored")
			if got := l.tokens.Load(); got != c.held*Token {
				t.Errorf("%v tokens are held after an exchange in which %d were spent, want %d", float64(got)/Token, c.spend, c.held)
			}
		}
	})
}

func TestB1AShareIsGivenUpForProcessesThatLackTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(Terms{Capacity: 60, Refill: 0.001}, 2)
		a, b := w.lots[0], w.lots[1]
		if a.tokens.Load() != 30*Token || b.tokens.Load() != 30*Token {
			t.Fatalf("the processes hold %v and %v units, want 30 tokens each", a.tokens.Load(), b.tokens.Load())
		}
		spent := drain(a)
		for range 3 {
			w.exchange(0, "stored")
			w.exchange(1, "stored")
			spent += drain(a)
		}
		if left := b.tokens.Load(); spent < 58 || left > 2*Token {
			t.Errorf("one process spent %d of 60, and the other, which is idle, still holds %d units", spent, left)
		}
	})
}

// TestB1WhatProcessesHoldTakesRoomInThePool: shares that are larger than a lot do not add to the bound.
func TestB1WhatProcessesHoldTakesRoomInThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3
		terms := Terms{Capacity: 60, Refill: 10}
		w := newWorld(terms, n)
		for range 40 { // everything fills up
			time.Sleep(250 * time.Millisecond)
			for i := range w.lots {
				w.exchange(i, "stored")
			}
		}
		spent := 0
		for range 5 {
			for i, l := range w.lots {
				spent += drain(l)
				w.exchange(i, "stored")
			}
		}
		if bound := terms.Capacity + terms.Refill*ahead.Seconds() + n*terms.Lot(); float64(spent) > bound || spent < 60 {
			t.Errorf("%d tokens spent at a time, want between 60 and %v", spent, bound)
		}
	})
}

func TestB2AnOutageRefillsTheProcessesShareOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(Terms{Capacity: 80, Refill: 10}, 4)
		for i, l := range w.lots {
			w.exchange(i, "unreachable")
			drain(l)
		}
		time.Sleep(4 * time.Second)
		for i, l := range w.lots {
			if got := drain(l); got != 10 {
				t.Errorf("process %d spent %d tokens in 4 s, want a quarter of 40", i, got)
			}
		}
	})
}

func TestB2WhatWasSpentWhileAwayIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(Terms{Capacity: 20, Refill: 10}, 1)
		l := w.lots[0]
		for range 2 { // so that the pool knows that the process holds little
			drain(l)
			w.exchange(0, "stored")
		}
		drain(l)
		w.exchange(0, "unreachable")
		spent := 0
		for range 20 { // 2 s of refill
			time.Sleep(100 * time.Millisecond)
			spent += drain(l)
		}
		if spent != 20 {
			t.Fatalf("spent %d of 20 during the outage", spent)
		}
		w.exchange(0, "stored")
		// Without the charge, the pool has filled up during the outage, and gives 20 tokens more.
		if got := drain(l); got > 3 {
			t.Errorf("spent %d tokens at the end of the outage, in addition to those of it", got)
		}
	})
}
