package sqlite_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest"
)

// openNamed opens a store for a process of a suite: the name is its path.
func openNamed(path string) (job.Store, error) {
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return db.Jobs(), nil
}

func TestJ23AKilledRunnerNeitherRepeatsNorSkips(t *testing.T) {
	db := open(t)
	storetest.KilledRedrives(t, db.Jobs(), db.Path())
}
