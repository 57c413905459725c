package postgres_test

import (
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
