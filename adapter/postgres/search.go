package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// Search implements job.Searcher.
func (j *Jobs) Search(ctx context.Context, q job.Search) (job.Found, error) {
	j.catchUp(ctx)
	indexes, err := j.Indexes(ctx)
	if err != nil {
		return job.Found{}, err
	}
	newest := func(ctx context.Context, indexed *filter.Term, below string, n int) (ids []string, err error) {
		text, err := newestSQL(q.Filter, indexed, below, n)
		if err != nil {
			return nil, err
		}
		b := customBatch()
		collect(b.Queue(j.db.sql(text.text), text.args...), &ids, pgx.RowTo[string])
		return ids, j.db.run(ctx, "search", b)
	}
	return q.Over(ctx, job.Candidates{Indexes: indexes, Newest: newest, List: j.List})
}

// customBatch is a steady batch whose statements are planned for their arguments: only then does a path that is an argument
// match the path of an index.
func customBatch() *pgx.Batch {
	b := steadyBatch()
	b.Queue(`SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`)
	return b
}

// newestSQL selects the highest n IDs below one.
func newestSQL(f job.Filter, indexed *filter.Term, below string, n int) (q selection, err error) {
	id := pgtype.UUID{Bytes: [16]byte{0: 0xff, 15: 0xff}, Valid: true}
	if below != "" {
		var ok bool
		if id, ok = parseID(below); !ok {
			return q, fmt.Errorf("postgres: search: cursor %q is not an ID", below)
		}
	}
	f.States = statesOf(f)
	cursor, limit := q.arg(id), q.arg(n)
	var branches []string
	branch := func(from string) {
		branches = append(branches, `(SELECT s.id FROM `+from+` AND s.id < `+cursor+` ORDER BY s.id DESC LIMIT `+limit+`)`)
	}
	switch {
	case indexed != nil:
		stored := strings.ReplaceAll(q.stored(*indexed), "b.", "s.")
		for _, v := range indexed.Values {
			branch(`{{schema}}.job s WHERE ` + stored + ` = ` + q.arg(v.Text))
		}
	case len(f.States) == 0:
		branch(`{{schema}}.job s WHERE true`)
	default:
		for _, p := range places() {
			wanted := func(s job.State) bool { return slices.Contains(f.States, s) }
			switch {
			case !slices.ContainsFunc(p.states, wanted):
			case p.table == "done" && !wanted(job.Completed):
				branch(`{{schema}}.done s WHERE s.state <> 'completed'`)
			default:
				branch(`{{schema}}.` + p.table + ` s WHERE true`)
			}
		}
	}
	q.text = `SELECT id::text FROM (` + strings.Join(branches, ` UNION ALL `) + `) j ORDER BY j.id DESC LIMIT ` + limit
	return q, nil
}

// Indexes implements job.Searcher. An index tells its field in its comment.
func (j *Jobs) Indexes(ctx context.Context) (fields []string, err error) {
	b := &pgx.Batch{}
	collect(b.Queue(`
SELECT obj_description(i.indexrelid, 'pg_class') AS field FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass($1) AND i.indisvalid AND starts_with(c.relname, 'search_') AND obj_description(i.indexrelid, 'pg_class') IS NOT NULL
ORDER BY field`, j.db.schema+".job"), &fields, pgx.RowTo[string])
	return fields, j.db.run(ctx, "indexes", b)
}

// SetIndex implements job.Indexer. One call runs at a time; what an interrupted one has left is removed first. It uses a connection beside
// the pool.
func (j *Jobs) SetIndex(ctx context.Context, field string, kept bool) error {
	t, err := job.IndexedField(field)
	if err != nil {
		return fmt.Errorf("postgres: index: %w", err)
	}
	unlock, err := j.lockIndexes(ctx)
	if err != nil {
		return j.db.wrap("index", err)
	}
	defer unlock()
	fields, err := j.Indexes(ctx)
	if err != nil || kept && slices.Contains(fields, field) {
		return err
	}
	name := fmt.Sprintf("search_%x", sha256.Sum256([]byte(field)))[:40]
	statements := []string{`DROP INDEX CONCURRENTLY IF EXISTS {{schema}}.` + name}
	if kept {
		column, expression := `meta`, `{{schema}}.meta_field(meta, `+quoted(t.Path)+`)`
		if t.Field == job.FieldPayload {
			column, expression = `payload`, `{{schema}}.payload_field(payload, ARRAY[`+quoted(strings.Split(t.Path, ".")...)+`])`
		}
		// The condition, which a search for a field implies, keeps other statements from using the index: to look up an ID, they would read
		// all of it. One on the expression would evaluate it twice for each new job.
		statements = append(statements, `CREATE INDEX CONCURRENTLY `+name+` ON {{schema}}.job (`+expression+`, id) WHERE `+column+` IS NOT NULL`,
			`COMMENT ON INDEX {{schema}}.`+name+` IS `+quoted(field))
	}
	for _, text := range statements { // outside a transaction, so that workers go on meanwhile
		if _, err := j.db.pool.Exec(ctx, j.db.sql(text), pgx.QueryExecModeSimpleProtocol); err != nil {
			return j.db.wrap("index", err)
		}
	}
	return nil
}

// lockIndexes waits until no other call of SetIndex runs. Each time it asks in a new transaction, because the builder of an index waits
// for every transaction that it finds with a snapshot. The transaction that gets the lock stays open, which keeps the lock behind a
// transaction pooler too. It has no snapshot after its statement, which the simple protocol ends at once.
func (j *Jobs) lockIndexes(ctx context.Context) (unlock func(), err error) {
	conn, err := j.db.connect(ctx)
	if err != nil {
		return nil, err
	}
	unlock = func() {
		ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ended)
	}
	locked := false
	for backoff := (wait.Backoff{Min: 10 * time.Millisecond, Max: time.Second}); err == nil; err = backoff.Wait(ctx) {
		var tx pgx.Tx
		if tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
			break
		}
		err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, pgx.QueryExecModeSimpleProtocol, j.db.lockKey("indexes")).Scan(&locked)
		if err != nil || locked {
			break
		}
		if err = tx.Rollback(ctx); err != nil {
			break
		}
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// quoted lists texts as literals of SQL. They have no backslashes.
func quoted(texts ...string) string {
	literal := func(text string) string { return `'` + strings.ReplaceAll(text, `'`, `''`) + `'` }
	return strings.Join(lists.Map(texts, literal), `, `)
}
