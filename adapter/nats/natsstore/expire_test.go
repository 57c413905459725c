package natsstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
)

// TestI6ExpireCountsARecordThatChangesMeanwhileOnce: a scan reads a record again that has changed since.
func TestI6ExpireCountsARecordThatChangesMeanwhileOnce(t *testing.T) {
	n := start(t)
	writer := open(t, n.ClientURL()).Idempotency()
	later := open(t, n.ClientURL(), func(o *natsstore.Options) { o.Clock = func() time.Time { return time.Now().Add(2 * time.Hour) } }).Idempotency()
	const keys = 1000
	settle := func(i int) {
		req := request(fmt.Sprint(i), "o")
		c := claim(t, writer, req)
		if err := writer.Settle(t.Context(), c, done("r")); err != nil {
			t.Error(err)
		}
	}
	for i := range keys {
		settle(i)
	}
	var stop atomic.Bool
	var changes sync.WaitGroup
	again := open(t, n.ClientURL(), func(o *natsstore.Options) { o.Clock = func() time.Time { return time.Now().Add(90 * time.Minute) } }).Idempotency()
	changes.Go(func() { // the keys are reused, and have expired again by the clock of later
		for i := 0; i < keys && !stop.Load(); i++ {
			c := claim(t, again, request(fmt.Sprint(i), "p"))
			short := done("r")
			short.TTL = time.Minute
			if err := again.Settle(t.Context(), c, short); err != nil {
				t.Error(err)
			}
		}
	})
	removed, err := later.Expire(t.Context(), 10*keys)
	stop.Store(true)
	changes.Wait()
	if err != nil || removed > keys {
		t.Errorf("%d of %d records removed, %v", removed, keys, err)
	}
}
