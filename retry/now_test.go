package retry

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestR13RecordsFollowTheClock: an executor reads the system's clock at least once a second, so that a step of that clock
// shows in its records.
func TestR13RecordsFollowTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewExecutor(ExecutorOptions{})
		for _, wait := range []time.Duration{0, time.Millisecond, time.Second - 1, time.Second, time.Hour} {
			e.now()
			reading := e.clockReading.Load()
			time.Sleep(wait)
			if now := e.now(); !now.Equal(time.Now()) {
				t.Errorf("%v for %v", now, time.Now())
			}
			if again := e.clockReading.Load() != reading; again != (time.Since(*reading) >= time.Second) {
				t.Errorf("after %v the time of day was read again: %v", time.Since(*reading), again)
			}
		}
	})
}
