package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/store/memory"
	"github.com/tenetdev/tenet/storetest"
)

func openKeys(*testing.T) idempotency.Store { return memory.Open().Idempotency() }

func TestIdempotency(t *testing.T) {
	storetest.Idempotency(t, storetest.IdempotencyOptions{Open: openKeys, Bubble: synctest.Test})
}

func TestIdempotencyInRealTime(t *testing.T) {
	storetest.Idempotency(t, storetest.IdempotencyOptions{Open: openKeys, Short: 100 * time.Millisecond})
}
