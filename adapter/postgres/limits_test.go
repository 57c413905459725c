package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/internal/testpg"
	"github.com/tenetdev/tenet/sharing"
	"github.com/tenetdev/tenet/storetest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	var schemaOf sync.Map // by store
	storetest.Limits(t, storetest.LimitsOptions{
		Open: func(t *testing.T) sharing.Store {
			db, schema := openEmpty(t, url)
			store := db.Limits()
			schemaOf.Store(store, schema)
			return store
		},
		Second: func(t *testing.T, first sharing.Store) sharing.Store {
			schema, _ := schemaOf.Load(first)
			return openAt(t, url, schema.(string)).Limits()
		},
	})
}

// TestLimitsOfAServerThatStops runs the cases on a server of its own, which is killed and started again for each outage.
func TestLimitsOfAServerThatStops(t *testing.T) {
	t.Parallel()
	server, err := testpg.Start(testpg.NoSync)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	schemas := 0
	name := func() string { return fmt.Sprint("limits", schemas) }
	storetest.LimitsInOutages(t, storetest.LimitsOptions{
		Open: func(t *testing.T) sharing.Store {
			schemas++
			db := openAt(t, server.URL(), name())
			if _, err := db.Migrate(t.Context(), postgres.Up, false); err != nil {
				t.Fatal(err)
			}
			return db.Limits()
		},
		Second: func(t *testing.T, _ sharing.Store) sharing.Store { return openAt(t, server.URL(), name()).Limits() },
		Restart: func(t *testing.T, f func()) {
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			f()
			if err := server.Run(); err != nil {
				t.Fatal(err)
			}
		},
	})
}
