package postgres_test

import (
	"sync"
	"testing"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest"
)

// TestJobs is the only parallel test that moves the clock.
func TestJobs(t *testing.T) {
	t.Parallel()
	var schemaOf sync.Map // by store
	storetest.Jobs(t, storetest.JobsOptions{
		Advance: advance,
		Open: func(t *testing.T) job.Store {
			db, schema := openEmpty(t, clocked)
			schemaOf.Store(db.Jobs(), schema)
			return db.Jobs()
		},
		Second: func(t *testing.T, first job.Store) job.Store {
			schema, _ := schemaOf.Load(first)
			return openAt(t, clocked, schema.(string)).Jobs()
		},
	})
}
