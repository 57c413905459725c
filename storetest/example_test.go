package storetest_test

import (
	"testing"
	"testing/synctest"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest"
)

// A store's tests run the suite. This store lives in one process and takes its time from package time, so it has no second
// handle and runs in virtual time.
func ExampleJobs() {
	_ = func(t *testing.T) { // func TestJobs(t *testing.T)
		storetest.Jobs(t, storetest.JobsOptions{
			Open:   func(*testing.T) job.Store { return memory.Open().Jobs() },
			Bubble: synctest.Test,
		})
	}
	// Output:
}

// A store shared by processes needs a second handle and a way to start a process. This store has neither.
func ExampleIdempotency() {
	_ = func(t *testing.T) { // func TestIdempotency(t *testing.T)
		storetest.Idempotency(t, storetest.IdempotencyOptions{
			Open:   func(*testing.T) idempotency.Store { return memory.Open().Idempotency() },
			Bubble: synctest.Test,
		})
	}
	// Output:
}
