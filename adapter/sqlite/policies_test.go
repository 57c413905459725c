package sqlite_test

import (
	"sync"
	"testing"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/storetest"
)

func TestPolicies(t *testing.T) {
	var paths sync.Map // by store
	storetest.Policies(t, storetest.PoliciesOptions{
		Open: func(t *testing.T) policystore.Store {
			db := open(t)
			paths.Store(db.Policies(), db.Path())
			return db.Policies()
		},
		Second: func(t *testing.T, first policystore.Store) policystore.Store {
			path, _ := paths.Load(first)
			return openFile(t, path.(string)).Policies()
		},
	})
}
