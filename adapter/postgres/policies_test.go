package postgres_test

import (
	"sync"
	"testing"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/storetest"
)

func TestPolicies(t *testing.T) {
	var schemaOf sync.Map // by store
	storetest.Policies(t, storetest.PoliciesOptions{
		Open: func(t *testing.T) policystore.Store {
			db, schema := openEmpty(t, url)
			schemaOf.Store(db.Policies(), schema)
			return db.Policies()
		},
		Second: func(t *testing.T, first policystore.Store) policystore.Store {
			schema, _ := schemaOf.Load(first)
			return openAt(t, url, schema.(string)).Policies()
		},
	})
}
