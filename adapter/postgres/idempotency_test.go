package postgres_test

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/storetest"
)

// Environment variables that tell a process of the suite where its data is.
const (
	processURL    = "TENET_TEST_PROCESS_URL"
	processSchema = "TENET_TEST_PROCESS_SCHEMA"
)

func openProcess() (idempotency.Store, error) {
	db, err := postgres.Open(context.Background(), os.Getenv(processURL), postgres.Options{Schema: os.Getenv(processSchema), MaxConns: 10})
	if err != nil {
		return nil, err
	}
	return db.Idempotency(), nil
}

func TestIdempotency(t *testing.T) {
	var schemaOf sync.Map // by store
	storetest.Idempotency(t, storetest.IdempotencyOptions{
		Advance: advance,
		Open: func(t *testing.T) idempotency.Store {
			db, schema := openEmpty(t, clocked)
			store := db.Idempotency()
			schemaOf.Store(store, schema)
			return store
		},
		Second: func(t *testing.T, first idempotency.Store) idempotency.Store {
			schema, _ := schemaOf.Load(first)
			return openAt(t, clocked, schema.(string)).Idempotency()
		},
		Process: func(_ *testing.T, first idempotency.Store) *exec.Cmd {
			schema, _ := schemaOf.Load(first)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), processURL+"="+clocked, processSchema+"="+schema.(string))
			return cmd
		},
	})
}
