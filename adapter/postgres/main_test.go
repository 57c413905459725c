package postgres_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/internal/testpg"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest"
)

// server is the server of this test binary, url its address, and clocked the one whose clock advance moves.
var (
	server       *testpg.Server
	url, clocked string
	// pools are for stores at these addresses: to start a connection costs more than most tests.
	pools = map[string]*pgxpool.Pool{}
)

func TestMain(m *testing.M) {
	storetest.IdempotencyProcess(openProcess)
	storetest.RedriveProcess(openNamed)
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	var err error
	if server, err = testpg.StartWithClock(testpg.NoVacuum); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	url, clocked = server.URL(), server.ClockURL()
	for _, u := range []string{url, clocked} {
		config, err := pgxpool.ParseConfig(u)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		config.MaxConns, config.MaxConnLifetime = 30, 20*time.Second // a connection remembers all tables that it has ever used
		if pools[u], err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	os.Setenv("DATABASE_URL", url) // for the example
	code = m.Run()
	for _, pool := range pools {
		pool.Close()
	}
	if code != 0 {
		return code
	}
	// The goroutine that copies the server's output belongs to the test.
	if err := goleak.Find(goleak.IgnoreTopFunction("os/exec.(*Cmd).Start.func2"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// advance moves the clock of stores of openAt(…, clocked, …) forward for the rest of the test.
func advance(t *testing.T, d time.Duration) { t.Helper(); server.Advance(t, d) }

var schemas atomic.Int64

// open makes a store in a new schema.
func open(t testing.TB) (*postgres.DB, string) { t.Helper(); return openNew(t, url) }

func openNew(t testing.TB, url string) (*postgres.DB, string) {
	t.Helper()
	schema := fmt.Sprintf("test %d %d", os.Getpid(), schemas.Add(1))
	db := openAt(t, url, schema)
	if _, err := db.Migrate(context.Background(), postgres.Up, false); err != nil {
		t.Fatal(err)
	}
	return db, schema
}

// openAt opens a schema, which need not exist, and closes it when the test ends.
func openAt(t testing.TB, url, schema string) *postgres.DB {
	t.Helper()
	o := postgres.Options{Schema: schema, MaxConns: 10}
	var db *postgres.DB
	var err error
	if pool := pools[url]; pool != nil {
		db, err = postgres.New(t.Context(), pool, o)
	} else {
		db, err = postgres.Open(t.Context(), url, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

var ids atomic.Int64

// insert makes a job with a new ID; IDs ascend.
func insert() job.Insert {
	return job.Insert{ID: fmt.Sprintf("01990000-0000-7000-9000-%012x", ids.Add(1)), Type: "t", Queue: "q", Payload: []byte(`{}`)}
}

func inserts(n int) []job.Insert {
	list := make([]job.Insert, n)
	for i := range list {
		list[i] = insert()
	}
	return list
}
