package memory_test

import (
	"testing"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/storetest"
)

func TestPolicies(t *testing.T) {
	storetest.Policies(t, storetest.PoliciesOptions{Open: func(t *testing.T) policystore.Store {
		db := memory.Open()
		t.Cleanup(func() { _ = db.Close() })
		return db.Policies()
	}})
}
