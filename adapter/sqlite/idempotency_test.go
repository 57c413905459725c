package sqlite_test

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/storetest"
)

// processFile is the environment variable with the file of a process of the suite.
const processFile = "TENET_TEST_PROCESS_FILE"

func openProcess() (idempotency.Store, error) {
	db, err := sqlite.Open(context.Background(), os.Getenv(processFile), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return db.Idempotency(), nil
}

func TestIdempotency(t *testing.T) {
	var paths sync.Map // by store
	storetest.Idempotency(t, storetest.IdempotencyOptions{
		Open: func(t *testing.T) idempotency.Store {
			db := open(t)
			store := db.Idempotency()
			paths.Store(store, db.Path())
			return store
		},
		Second: func(t *testing.T, first idempotency.Store) idempotency.Store {
			path, _ := paths.Load(first)
			return openFile(t, path.(string)).Idempotency()
		},
		Process: func(_ *testing.T, first idempotency.Store) *exec.Cmd {
			path, _ := paths.Load(first)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), processFile+"="+path.(string))
			return cmd
		},
		Bubble: synctest.Test,
	})
}
