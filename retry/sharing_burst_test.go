package retry_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/retry"
)

// burst makes calls at the same moment, each of which runs for 20 ms, and returns how many were admitted.
func burst(e *retry.Executor, calls int) int {
	var admitted atomic.Int64
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			_ = e.Do(bg, key, func(context.Context) error {
				admitted.Add(1)
				time.Sleep(20 * time.Millisecond)
				return nil
			})
		})
	}
	all.Wait()
	return int(admitted.Load())
}

const (
	burstPlaces = `{version: 1, policies: {user-service.GetUser: {retry: {max_attempts: 1}, limit: {concurrency: 40, scope: shared}}}}`
	burstRate   = `{version: 1, policies: {user-service.GetUser: {retry: {max_attempts: 1}, limit: {rate: {count: 10, per: 1s, burst: 50}, scope: shared}}}}`
)

func TestB1AProcessAloneHasRoomForABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, _, _ := sharingProcesses(t, 1, burstPlaces)
		got := []int{burst(list[0], 30)}
		for range 5 {
			time.Sleep(200 * time.Millisecond)
			got = append(got, burst(list[0], 30))
		}
		for _, pause := range []time.Duration{3 * time.Second, time.Minute} {
			time.Sleep(pause)
			got = append(got, burst(list[0], 30))
		}
		if got[0] < 1 || slices.Min(got[1:]) < 30 {
			t.Errorf("admitted %v of 30 each", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		list, _, _ := sharingProcesses(t, 1, burstRate)
		first := burst(list[0], 1)
		time.Sleep(300 * time.Millisecond)
		got := []int{first, burst(list[0], 40), burst(list[0], 40)}
		time.Sleep(6 * time.Second)
		got = append(got, burst(list[0], 40))
		if got[0] < 1 || got[1] < 40 || got[2] > 16 || got[3] < 40 {
			t.Errorf("admitted %v of 1, 40, 40 and 40", got)
		}
	})
}

func TestB1ABurstGetsWhatOtherProcessesDoNotUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, _, _ := sharingProcesses(t, 4, burstPlaces)
		for _, e := range list {
			burst(e, 1)
		}
		time.Sleep(time.Second)
		for i, e := range list {
			if got := burst(e, 9); got < 9 {
				t.Errorf("process %d: %d of 9, its equal share of 36 places", i, got)
			}
		}
		begin, got := time.Now(), 0
		for time.Since(begin) < 2*time.Second && got < 36 {
			got = burst(list[0], 36)
			time.Sleep(50 * time.Millisecond)
		}
		if got < 36 {
			t.Errorf("%d of 36 while the other processes are idle", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		list, _, _ := sharingProcesses(t, 2, burstRate)
		for _, e := range list {
			burst(e, 1)
		}
		time.Sleep(2 * time.Second)
		first := burst(list[0], 25)
		rest := 0
		for range 20 {
			rest += burst(list[0], 5)
			time.Sleep(50 * time.Millisecond)
		}
		if first < 25 || rest < 25 {
			t.Errorf("admitted %d of 25, its equal share, and %d more within a second", first, rest)
		}
	})
}

// TestB2ABurstWhileTheStoreHangs: a store that does not answer delays nothing, and refuses nothing that the process's own share allows.
func TestB2ABurstWhileTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, store, _ := sharingProcesses(t, 1, burstPlaces)
		burst(list[0], 1)
		time.Sleep(time.Second)
		store.hangs.Store(true)
		for range 10 {
			began := time.Now()
			if got := burst(list[0], 30); got < 30 {
				t.Errorf("%d of 30", got)
			}
			if took := time.Since(began); took > 20*time.Millisecond {
				t.Errorf("a burst of calls of 20 ms took %v", took)
			}
			time.Sleep(200 * time.Millisecond)
		}
		store.hangs.Store(false)
	})
	synctest.Test(t, func(t *testing.T) { // from the start
		list, store, _ := sharingProcesses(t, 1, burstPlaces)
		store.hangs.Store(true)
		first := burst(list[0], 30)
		time.Sleep(1100 * time.Millisecond)
		if away := burst(list[0], 30); first != 1 || away != 30 {
			t.Errorf("admitted %d before the store counted as away, and %d after; want 1 and 30", first, away)
		}
		store.hangs.Store(false)
	})
}
