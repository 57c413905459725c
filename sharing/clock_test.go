package sharing

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestB1APoolIsRefilledAlthoughTheClockOfTheStoreIsPutBack puts the store's clock back by an hour, as a failover to another machine can.
func TestB1APoolIsRefilledAlthoughTheClockOfTheStoreIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := Terms{Capacity: 20, Refill: 10}
		w := newWorld(terms, 1)
		drain(w.lots[0])
		m := member{w.lots[0]}
		spent := 0
		for range 40 {
			time.Sleep(250 * time.Millisecond)
			if next := m.Change(time.Now().Add(-time.Hour), w.data); next != nil {
				w.data = next
			}
			m.Settle(nil)
			spent += drain(w.lots[0])
		}
		if spent < 90 {
			t.Errorf("spent %d tokens in 10 s, in which 100 came", spent)
		}
	})
}
