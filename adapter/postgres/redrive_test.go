package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest"
)

// openNamed opens a store for a process of a suite: the name is the server's address and, after a line break, the schema.
func openNamed(name string) (job.Store, error) {
	address, schema, found := strings.Cut(name, "\n")
	if !found {
		return nil, fmt.Errorf("%q is not a store", name)
	}
	db, err := postgres.Open(context.Background(), address, postgres.Options{Schema: schema})
	if err != nil {
		return nil, err
	}
	return db.Jobs(), nil
}

func TestJ23AKilledRunnerNeitherRepeatsNorSkips(t *testing.T) {
	db, schema := open(t)
	storetest.KilledRedrives(t, db.Jobs(), url+"\n"+schema)
}
