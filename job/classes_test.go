package job_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// classed is a store of a database whose errors have a class.
type classed struct{ job.Store }

func (classed) Classes() classify.Family {
	return classify.Custom(policy.ClassSQLDeadlock, "", classify.Is(errDown))
}

// TestC2WorkerMatchesTheClassesOfItsStore: a document may name the store's classes although the program does not register them.
func TestC2WorkerMatchesTheClassesOfItsStore(t *testing.T) {
	for name, with := range map[string]bool{"a store with classes": true, "a store without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := memory.Open().Jobs()
				b := &bench{t: t, store: memory, client: job.NewClient(memory)}
				var store job.Store = memory
				if with {
					store = classed{memory}
				}
				handler, calls := failing(errDown)
				set := document(t, "version: 1\ndefaults: {jobs: {retry: {max_attempts: 2, retry_on: [sql_deadlock]}}}\n")
				defer b.start(store, handler, job.WithProvider(set))()
				id := b.enqueue(job.Request{})
				time.Sleep(time.Minute)
				want := int64(1)
				if with {
					want = 2
				}
				if r, _ := b.get(id); r.State != job.Dead || calls.Load() != want {
					t.Errorf("%s after %d calls, want %d", r.State, calls.Load(), want)
				}
			})
		})
	}
}
