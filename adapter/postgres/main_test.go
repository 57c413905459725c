package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
	// own is the server that tests stop and start again, one after the other. It runs from the first of them on.
	own = &testpg.Server{}
)

func TestMain(m *testing.M) {
	storetest.IdempotencyProcess(openProcess)
	storetest.RedriveProcess(openNamed)
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	var err error
	if server, err = testpg.StartWithClock(testpg.NoVacuum, "jit=off"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := errors.Join(server.Close(), own.Close()); err != nil {
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
		config.MaxConns = 60
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

// startOwn starts the server own where it does not run yet. A test that fails may leave it stopped, so the next one gets another.
func startOwn(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			if err := own.Close(); err != nil {
				t.Log(err)
			}
			own = &testpg.Server{}
		}
	})
	if own.URL() != "" {
		return
	}
	started, err := testpg.Start(testpg.NoSync)
	if err != nil {
		t.Fatal(err)
	}
	own = started
}

var schemas atomic.Int64

// open opens a store in a schema without rows.
func open(t testing.TB) (*postgres.DB, string) { t.Helper(); return openEmpty(t, url) }

func openNew(t testing.TB, url string) (*postgres.DB, string) {
	t.Helper()
	schema := fmt.Sprintf("test %d %d", os.Getpid(), schemas.Add(1))
	db := openAt(t, url, schema)
	if _, err := db.Migrate(context.Background(), postgres.Up, false); err != nil {
		t.Fatal(err)
	}
	return db, schema
}

// emptied holds the schemas of tests that have ended, by URL. Migrating a new schema takes longer than most cases of a suite, and the
// server has to plan every statement for it again.
var emptied = struct {
	sync.Mutex
	schemas map[string][]string
}{schemas: map[string][]string{}}

// openEmpty opens a store in a schema without rows: one from an earlier case, or a new one.
func openEmpty(t testing.TB, url string) (db *postgres.DB, schema string) {
	t.Helper()
	t.Cleanup(func() { // after the store is closed
		if t.Failed() {
			return
		}
		reusable, err := empty(pools[url], schema)
		if err != nil {
			t.Error(err)
		}
		if reusable {
			emptied.Lock()
			defer emptied.Unlock()
			emptied.schemas[url] = append(emptied.schemas[url], schema)
		}
	})
	emptied.Lock()
	list := emptied.schemas[url]
	if n := len(list); n > 0 {
		schema, emptied.schemas[url] = list[n-1], list[:n-1]
	}
	emptied.Unlock()
	if schema != "" {
		return openAt(t, url, schema), schema
	}
	return openNew(t, url)
}

// empty deletes the rows that a test has left in a schema. It reports false if the schema is too large to use again, or if the test has
// added indexes.
func empty(pool *pgxpool.Pool, schema string) (reusable bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	rows, _ := pool.Query(ctx, `SELECT format('DELETE FROM %s;', oid::regclass) FROM pg_class WHERE relnamespace = quote_ident($1)::regnamespace
		AND relkind = 'r' AND relname NOT IN ('migration', 'policy_change', 'gate', 'watch')
		AND (SELECT sum(pg_relation_size(oid)) < 1 << 20 AND NOT bool_or(relname LIKE 'search\_%') FROM pg_class WHERE relnamespace = quote_ident($1)::regnamespace)`, schema)
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(statements) == 0 {
		return false, err
	}
	name := pgx.Identifier{schema}.Sanitize()
	_, err = pool.Exec(ctx, `SET LOCAL session_replication_role = replica; `+ // no triggers
		strings.Join(statements, "")+`UPDATE `+name+`.watch SET until = '-infinity'; ALTER SEQUENCE `+name+`.job_limit_number RESTART`, pgx.QueryExecModeSimpleProtocol)
	return err == nil, err
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

func enqueue(t testing.TB, store job.Store, list ...job.Insert) {
	t.Helper()
	if _, err := store.Enqueue(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

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

// connect opens a connection beside those of the stores.
func connect(t testing.TB) *pgx.Conn {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also for the test's cleanup
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	return conn
}

// begin opens a transaction on its own connection. It ends with the connection.
func begin(t testing.TB) pgx.Tx {
	t.Helper()
	tx, err := connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// awaitLocks waits until n transactions of a pool's database wait for locks.
func awaitLocks(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for waiting := 0; waiting < n; {
		const blocked = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
		if err := pool.QueryRow(ctx, blocked).Scan(&waiting); err != nil {
			t.Fatalf("%d of %d transactions wait for locks: %v", waiting, n, err)
		}
	}
}
