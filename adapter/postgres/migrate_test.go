package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
)

// openUnmigrated opens a schema that does not exist.
func openUnmigrated(t *testing.T) (*postgres.DB, string) {
	t.Helper()
	schema := fmt.Sprintf(`un"made' %d %d`, os.Getpid(), schemas.Add(1))
	return openAt(t, url, schema), schema
}

func TestJ14EightMigratorsAtOnce(t *testing.T) {
	_, schema := openUnmigrated(t)
	steps := make([]int, 8)
	var group sync.WaitGroup
	for i := range steps {
		db := openAt(t, url, schema)
		group.Go(func() {
			done, err := db.Migrate(context.Background(), postgres.Up, false)
			if err != nil {
				t.Error(err)
			}
			steps[i] = len(done)
		})
	}
	group.Wait()
	ran := 0
	for _, n := range steps {
		if n > 0 {
			ran++
		}
	}
	if ran != 1 {
		t.Fatalf("steps by migrator: %v, want them all in one", steps)
	}
	enqueue(t, openAt(t, url, schema).Jobs(), inserts(1)...)
}

func TestJ14UpDownAndStatus(t *testing.T) {
	ctx := context.Background()
	db, schema := openUnmigrated(t)
	applied := func() (n int) {
		t.Helper()
		list, err := db.MigrationStatus(ctx)
		if err != nil || len(list) == 0 {
			t.Fatalf("%v, %v", list, err)
		}
		for _, s := range list {
			if s.Applied != !s.AppliedAt.IsZero() {
				t.Errorf("%+v", s)
			}
			if s.Applied {
				n++
			}
		}
		return n
	}
	if n := applied(); n != 0 {
		t.Fatalf("%d versions before", n)
	}
	up, err := db.Migrate(ctx, postgres.Up, false)
	if err != nil || len(up) == 0 || applied() != len(up) {
		t.Fatalf("up: %v, %v, applied %d", up, err, applied())
	}
	for range up {
		if down, err := db.Migrate(ctx, postgres.Down, false); err != nil || len(down) != 1 {
			t.Fatalf("down: %v, %v", down, err)
		}
	}
	if n := applied(); n != 0 {
		t.Fatalf("%d versions after", n)
	}
	conn := connect(t)
	tables := 0
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_tables WHERE schemaname = $1`, schema).Scan(&tables); err != nil || tables != 1 {
		t.Fatalf("%d tables remain, want only the list of versions; %v", tables, err)
	}
	if again, err := db.Migrate(ctx, postgres.Up, false); err != nil || len(again) != len(up) {
		t.Fatalf("up again: %v, %v", again, err)
	}
}

func TestJ14ADryRunPrintsSQLThatWorksAndChangesNothing(t *testing.T) {
	ctx := context.Background()
	db, schema := openUnmigrated(t)
	steps, err := db.Migrate(ctx, postgres.Up, true)
	if err != nil || len(steps) == 0 {
		t.Fatalf("%v, %v", steps, err)
	}
	if _, err := db.Jobs().Enqueue(ctx, inserts(1)); !errors.Is(err, postgres.ErrNotMigrated) {
		t.Fatalf("after a dry run: %v", err)
	}
	conn := connect(t)
	for _, s := range steps {
		if strings.Contains(s.SQL, "{{") {
			t.Errorf("%s is not rendered", s)
		}
		if _, err := conn.Exec(ctx, s.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if _, err := db.Jobs().Enqueue(ctx, inserts(1)); err != nil {
		t.Fatalf("schema %s, migrated by hand: %v", schema, err)
	}
	if again, err := db.Migrate(ctx, postgres.Up, false); err != nil || len(again) != 0 {
		t.Fatalf("up after all steps were taken by hand: %v, %v", again, err)
	}
	down, err := db.Migrate(ctx, postgres.Down, true)
	if err != nil || len(down) != 1 {
		t.Fatalf("down: %v, %v", down, err)
	}
	if _, err := conn.Exec(ctx, down[0].SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	status, err := db.MigrationStatus(ctx)
	if n := len(status); err != nil || status[n-1].Applied || !status[n-2].Applied {
		t.Errorf("%v, %v", status, err)
	}
}

func TestJ14AMissingSchemaIsReportedWithItsRemedy(t *testing.T) {
	ctx := context.Background()
	db, _ := openUnmigrated(t)
	store := db.Jobs()
	_, enqueue := store.Enqueue(ctx, inserts(1))
	_, claim := store.Claim(ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 1}}, Lease: 1e9})
	_, maintain := store.Maintain(ctx, job.Maintenance{Limit: 1})
	_, _, get := store.Get(ctx, insert().ID)
	_, change := store.Change(ctx, job.ActionRetry, job.Filter{}, 1)
	settle := store.Settle(ctx, []job.Settlement{{Ref: job.Ref{ID: insert().ID}, Kind: job.KindComplete}})
	for name, err := range map[string]error{
		"enqueue": enqueue, "claim": claim, "maintain": maintain, "get": get, "change": change, "settle": errors.Join(settle...),
	} {
		if !errors.Is(err, postgres.ErrNotMigrated) || !strings.Contains(err.Error(), "tenet migrate up") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJ14ASchemaThatIsNotUpToDateIsReportedWithItsRemedy(t *testing.T) {
	ctx := t.Context()
	db, _ := openNew(t, url)
	for {
		steps, err := db.Migrate(ctx, postgres.Down, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(steps) == 0 {
			return
		}
		for name, err := range map[string]error{
			"claim":        second(db.Jobs().Claim(ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 1}}, Lease: time.Minute})),
			"maintain":     second(db.Jobs().Maintain(ctx, job.Maintenance{Limit: 1})),
			"set queue":    db.Jobs().SetQueue(ctx, job.QueueState{Queue: "q"}),
			"index":        db.Jobs().SetIndex(ctx, "meta.tenant", true),
			"save clients": db.Policies().SaveClients(ctx, []policystore.Client{{Document: "d", ID: "c"}}),
		} {
			if err != nil && !errors.Is(err, postgres.ErrNotMigrated) {
				t.Errorf("before %s: %s: %v", steps[0].Name, name, err)
			}
		}
	}
}

func TestJ14ASchemaOfANewerProgramIsRefused(t *testing.T) {
	ctx := context.Background()
	_, schema := openNew(t, url)
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	table := pgx.Identifier{schema, "migration"}.Sanitize()
	if _, err := pool.Exec(ctx, `INSERT INTO `+table+` VALUES (999, 'later', now())`); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (*postgres.DB, error){
		"open": func() (*postgres.DB, error) { return postgres.Open(ctx, url, postgres.Options{Schema: schema}) },
		"new":  func() (*postgres.DB, error) { return postgres.New(ctx, pool, postgres.Options{Schema: schema}) },
	} {
		db, err := open()
		if err == nil {
			db.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "the database has version 999, this program knows ") || !strings.HasSuffix(err.Error(), ": use a newer tenet") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpenRejectsInvalidOptions(t *testing.T) {
	ctx := context.Background()
	for name, open := range map[string]func() (*postgres.DB, error){
		"no URL": func() (*postgres.DB, error) { return postgres.Open(ctx, "mysql://x", postgres.Options{}) },
		"no server": func() (*postgres.DB, error) {
			return postgres.Open(ctx, "postgres://127.0.0.1:1/x", postgres.Options{})
		},
		"a long schema": func() (*postgres.DB, error) {
			return postgres.Open(ctx, url, postgres.Options{Schema: strings.Repeat("x", 51)})
		},
	} {
		if db, err := open(); err == nil {
			db.Close()
			t.Errorf("%s: opened", name)
		}
	}
}
