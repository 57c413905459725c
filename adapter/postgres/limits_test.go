package postgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/adapter/postgres"
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

// TestLimitsOfAServerThatStops kills the server for each outage.
func TestLimitsOfAServerThatStops(t *testing.T) {
	t.Parallel() // no other parallel test uses this server
	startOwn(t)
	again := func(t *testing.T) *postgres.DB { t.Helper(); return openAt(t, own.URL(), "limits") }
	storetest.LimitsInOutages(t, storetest.LimitsOptions{
		Open: func(t *testing.T) sharing.Store {
			db := again(t)
			if _, err := db.Migrate(t.Context(), postgres.Up, false); err != nil {
				t.Fatal(err)
			}
			conn, err := pgx.Connect(t.Context(), own.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			if _, err := conn.Exec(t.Context(), `DELETE FROM limits.shared_limit`); err != nil {
				t.Fatal(err)
			}
			return db.Limits()
		},
		Second: func(t *testing.T, _ sharing.Store) sharing.Store { return again(t).Limits() },
		Restart: func(t *testing.T, f func()) {
			if err := own.Kill(); err != nil {
				t.Fatal(err)
			}
			f()
			if err := own.Run(); err != nil {
				t.Fatal(err)
			}
		},
	})
}
