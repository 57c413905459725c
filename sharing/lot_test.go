package sharing

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

var detachments atomic.Int64

// detached makes a lot without a hub, whose exchanges the test makes itself.
func detached(t Terms) *Lot {
	l := newLot(t)
	l.link = &Link{hub: &Hub{wake: make(chan struct{}, 1)}, id: fmt.Sprint("process ", detachments.Add(1))}
	return l
}

// world is a pool and the lots of some processes, and counts what they spend.
type world struct {
	terms         Terms
	data          []byte
	lots          []*Lot
	earned, spent int64 // in units
	starts        int64
	begin         time.Time
}

func (w *world) exchange(i int, outcome string) {
	m := member{w.lots[i]}
	if outcome == "unreachable" {
		m.Settle(errors.New("unreachable"))
		return
	}
	next := m.Change(time.Now(), w.data)
	if outcome == "overtaken" { // the same exchange is tried again
		next = m.Change(time.Now(), w.data)
	}
	if outcome != "not stored" && next != nil {
		w.data = next
	}
	if outcome == "not stored" || outcome == "answer lost" {
		m.Settle(errors.New(outcome))
		return
	}
	m.Settle(nil)
}

// TestB1TokensAreNeverSpentTwice plays processes that earn, spend, exchange, lose exchanges and crash in any order. What they
// spend is what the pool held, what calls earned, and for each start of a process one lot.
func TestB1TokensAreNeverSpentTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		terms := Terms{
			Capacity: float64(rapid.IntRange(1, 200).Draw(rt, "burst")),
			Earn:     rapid.SampledFrom([]float64{0.1, 0.2, 0.29, 1, 3}).Draw(rt, "ratio"),
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) [3]int {
			return [3]int{rapid.IntRange(0, 9).Draw(rt, "what"), rapid.IntRange(0, 4).Draw(rt, "process"), rapid.IntRange(1, 5).Draw(rt, "count")}
		}), 1, 300).Draw(rt, "steps")
		fault := ""
		synctest.Test(t, func(*testing.T) {
			w := &world{terms: terms, starts: 5}
			for range 5 {
				w.lots = append(w.lots, detached(terms))
			}
			cost := int64(0)
			for _, s := range steps {
				if fault != "" {
					return
				}
				what, i, count := s[0], s[1], s[2]
				switch what {
				case 0, 1:
					for range 10 * count {
						w.lots[i].Earn()
						w.earned += units(terms.Earn)
					}
				case 2, 3, 4:
					for range 5 {
						if w.lots[i].Spend(count) {
							w.spent += int64(count) * Token
							cost = max(cost, int64(count)*Token)
						}
					}
				case 5, 6:
					w.exchange(i, "stored")
				case 7:
					w.exchange(i, []string{"overtaken", "unreachable", "not stored", "answer lost", "unreachable"}[count-1])
				case 8:
					time.Sleep(time.Duration(count) * 100 * time.Millisecond)
				case 9:
					if count == 1 { // a crash and a new process
						w.lots[i] = detached(terms)
						w.starts++
					}
				}
				lot := max(units(terms.Lot()), cost)
				if bound := units(terms.Capacity) + w.earned + w.starts*lot; w.spent > bound {
					fault = fmt.Sprintf("spent %d of %d units", w.spent, bound)
				}
				fault = cmp.Or(fault, w.check())
			}
		})
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// TestB1TokensThatMayHaveArrivedAreNotGivenTwice loses the answer of an exchange that gave earned tokens to an empty pool.
func TestB1TokensThatMayHaveArrivedAreNotGivenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := Terms{Capacity: 100, Earn: 1}
		w := &world{terms: terms, starts: 1, lots: []*Lot{detached(terms)}}
		for range 200 {
			if w.lots[0].Spend(1) {
				w.spent += Token
			}
			w.exchange(0, "stored")
		}
		if w.spent != units(terms.Capacity) {
			t.Fatalf("spent %d units, so the pool is not empty", w.spent)
		}
		for range 40 {
			w.lots[0].Earn()
			w.earned += units(terms.Earn)
		}
		for _, outcome := range []string{"answer lost", "stored"} {
			w.exchange(0, outcome)
			if fault := w.check(); fault != "" {
				t.Fatalf("%s: %s", outcome, fault)
			}
		}
	})
}

// TestB1AGrantIsOfWholeTokens leaves the fraction of a token in the pool, where it becomes a whole one for whoever asks next.
func TestB1AGrantIsOfWholeTokens(t *testing.T) {
	p := pool{Tokens: 3*Token + Token/2}
	if got := p.take(10*Token, Terms{Capacity: 100}); got != 3*Token || p.Tokens != Token/2 {
		t.Errorf("granted %d units, %d left", got, p.Tokens)
	}
	if got := p.take(Token/4, Terms{Capacity: 100}); got != Token/4 {
		t.Errorf("granted %d units of %d that fill a lot", got, Token/4)
	}
}

// check checks that no more tokens exist than were given: in the pool, in lots, and spent.
func (w *world) check() (fault string) {
	p := readPool(time.Now(), w.data, w.terms)
	total := p.Tokens + w.spent
	for _, l := range w.lots {
		total += l.tokens.Load() - l.owed + max(l.back, 0)
		total += int64(l.calls.Sum()-l.counted) * l.earn.Load()
	}
	// A process that crashed before its first exchange took its advance with it, spent or not.
	if bound := units(w.terms.Capacity) + w.earned + (w.starts-int64(len(w.lots)))*units(w.terms.Lot()); total > bound {
		return fmt.Sprintf("%d units exist, but only %d were given", total, bound)
	}
	return ""
}

// TestB1TheRefillOfAPoolBoundsAllProcesses is the same for what time refills: in any window, the processes spend at most the
// capacity, the refill of the window and of ahead, and one lot each.
func TestB1TheRefillOfAPoolBoundsAllProcesses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		terms := Terms{
			Capacity: float64(rapid.IntRange(1, 100).Draw(rt, "capacity")),
			Refill:   rapid.SampledFrom([]float64{0.5, 5, 100, 1000}).Draw(rt, "refill"),
		}
		const processes = 3
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) [3]int {
			return [3]int{rapid.IntRange(0, 5).Draw(rt, "what"), rapid.IntRange(0, processes-1).Draw(rt, "process"), rapid.IntRange(1, 60).Draw(rt, "count")}
		}), 1, 200).Draw(rt, "steps")
		fault := ""
		synctest.Test(t, func(*testing.T) {
			w := &world{terms: terms, begin: time.Now()}
			for range processes {
				w.lots = append(w.lots, detached(terms))
			}
			type use struct {
				at   time.Duration
				cost int64
			}
			var uses []use
			for _, s := range steps {
				switch what, i, count := s[0], s[1], s[2]; what {
				case 0, 1:
					for range count {
						if w.lots[i].Spend(1) {
							uses = append(uses, use{time.Since(w.begin), Token})
						}
					}
				case 2, 3:
					w.exchange(i, "stored")
				case 4:
					time.Sleep(time.Duration(count) * 10 * time.Millisecond)
				case 5: // everything fills up
					for range 3 {
						time.Sleep(time.Duration(count) * time.Second)
						for i := range w.lots {
							w.exchange(i, "stored")
						}
					}
				}
			}
			lots := processes * terms.Lot()
			for i := range uses {
				total := int64(0)
				for _, u := range uses[i:] {
					total += u.cost
					window := (u.at - uses[i].at + ahead).Seconds()
					if bound := terms.Capacity + terms.Refill*window + lots; float64(total)/Token > bound+1e-6 {
						fault = fmt.Sprintf("%d spent in a window that allows %v", total/Token, bound)
					}
				}
			}
		})
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// TestB2ALotFillsAfterQuietHours: what time has refilled is more than an int64 holds.
func TestB2ALotFillsAfterQuietHours(t *testing.T) {
	for _, idle := range []time.Duration{time.Minute, 3 * time.Hour} {
		l := newLot(Terms{Capacity: 1e6, Refill: 1e6})
		l.tokens.Store(0)
		l.dry.Store(true)
		l.away.Store(true)
		l.interim.at.Store(int64(time.Since(epoch) - idle))
		if !l.Spend(1) {
			t.Errorf("refused after %v", idle)
		}
	}
}
