package sqlite_test

import (
	"sync"
	"testing"

	"github.com/tenetdev/tenet/sharing"
	"github.com/tenetdev/tenet/storetest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	var paths sync.Map // by store
	storetest.Limits(t, storetest.LimitsOptions{
		Open: func(t *testing.T) sharing.Store {
			db := open(t)
			store := db.Limits()
			paths.Store(store, db.Path())
			return store
		},
		Second: func(t *testing.T, first sharing.Store) sharing.Store {
			path, _ := paths.Load(first)
			return openFile(t, path.(string)).Limits()
		},
	})
}
