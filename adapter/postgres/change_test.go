package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
)

// TestJ13AJobThatMovesMeanwhileIsChanged: between the look for the jobs to change and the change, a job may go to another table.
func TestJ13AJobThatMovesMeanwhileIsChanged(t *testing.T) {
	for _, action := range []job.Action{job.ActionCancel, job.ActionDelete} {
		t.Run(string(action), func(t *testing.T) {
			db, schema := open(t)
			store := db.Jobs()
			list := inserts(2)
			enqueue(t, store, list...)
			tx, err := pools[url].Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			name := pgx.Identifier{schema}.Sanitize()
			move := `WITH gone AS (DELETE FROM SCHEMA.ready WHERE id = $1 RETURNING *)
INSERT INTO SCHEMA.scheduled (id, run_at, fence, attempts, refusals, priority, queue, type)
SELECT id, now() + interval '1 hour', fence + 1, 1, 0, priority, queue, type FROM gone`
			if _, err := tx.Exec(t.Context(), strings.ReplaceAll(move, "SCHEMA", name), list[0].ID); err != nil {
				t.Fatal(err)
			}
			changed := make(chan []string)
			go func() {
				ids, err := store.Change(t.Context(), action, job.Filter{IDs: []string{list[0].ID, list[1].ID}}, 10)
				if err != nil {
					t.Error(err)
				}
				changed <- ids
			}()
			time.Sleep(300 * time.Millisecond) // it waits for the transaction
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if ids := <-changed; len(ids) != 2 {
				t.Errorf("%s: changed %q, want both", action, ids)
			}
		})
	}
}

// TestJ9AChangeOverSeveralStatesReleasesKeysInTheOrderInWhichTheyAreTaken: a transaction that takes them meanwhile does not deadlock.
func TestJ9AChangeOverSeveralStatesReleasesKeysInTheOrderInWhichTheyAreTaken(t *testing.T) {
	for _, action := range []job.Action{job.ActionCancel, job.ActionDelete} {
		t.Run(string(action), func(t *testing.T) {
			ctx := t.Context()
			db, _ := open(t)
			store := db.Jobs()
			keyed := func(keys ...string) []job.Insert {
				list := inserts(len(keys))
				for i := range list {
					list[i].UniqueKey = keys[i]
				}
				return list
			}
			list := keyed("a", "c")
			list[0].RunAt = time.Now().Add(time.Hour) // ready jobs are changed before scheduled ones
			enqueue(t, store, list...)
			first, err := pools[url].Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.InsertTx(ctx, first, keyed("b")); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = first.Rollback(ctx) }() // if a wait fails, the others go on
			errs := make(chan error, 2)
			go func() {
				errs <- pgx.BeginFunc(ctx, pools[url], func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, `SET LOCAL deadlock_timeout = '10ms'`) // this transaction fails, not the one that it waits for
					if err == nil {
						_, err = store.InsertTx(ctx, tx, keyed("a", "b", "c"))
					}
					return err
				})
			}()
			awaitLocks(t, pools[url], 1) // the transaction has a
			go func() {
				ids, err := store.Change(ctx, action, job.Filter{IDs: []string{list[0].ID, list[1].ID}}, 10)
				if err == nil && len(ids) != 2 {
					err = fmt.Errorf("%q were changed", ids)
				}
				errs <- err
			}()
			awaitLocks(t, pools[url], 2)
			if err := errors.Join(first.Rollback(ctx), <-errs, <-errs); err != nil {
				t.Error(err)
			}
			again, err := store.Enqueue(ctx, keyed("a", "c"))
			if err != nil || again[0].Existed || again[1].Existed {
				t.Errorf("keys that were released: %+v, %v", again, err)
			}
		})
	}
}
