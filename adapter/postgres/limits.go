package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenetdev/tenet/sharing"
)

// Limits is a sharing.Store. Its clock is the server's. It is safe for concurrent use.
//
// Its commits do not wait for the disk: a crash of the server may lose the last second of them, and so give out again what was
// taken in it.
type Limits struct{ db *DB }

var _ sharing.Store = (*Limits)(nil)

// Limits is the database's store of shared limits.
func (db *DB) Limits() *Limits { return &Limits{db} }

const (
	loadLimits  = `SELECT name, version, data FROM {{schema}}.shared_limit WHERE name = ANY($1)`
	swapLimit   = `UPDATE {{schema}}.shared_limit SET version = version + 1, data = $3, changed = clock_timestamp() WHERE name = $1 AND version = $2`
	newLimit    = `INSERT INTO {{schema}}.shared_limit VALUES ($1, 1, $2, clock_timestamp()) ON CONFLICT DO NOTHING`
	unusedLimit = `DELETE FROM {{schema}}.shared_limit WHERE name IN (
		SELECT name FROM {{schema}}.shared_limit WHERE changed < clock_timestamp() - $1::interval ORDER BY name FOR UPDATE SKIP LOCKED)`
)

// Load reads the named states in one round trip.
func (s *Limits) Load(ctx context.Context, names []string) (sharing.Snapshot, error) {
	snapshot := sharing.Snapshot{States: make([]sharing.State, len(names))}
	found := make(map[string]sharing.State, len(names))
	var batch pgx.Batch
	batch.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&snapshot.Now) })
	batch.Queue(s.db.sql(loadLimits), names).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sharing.State])
		for _, state := range list {
			found[state.Name] = state
		}
		return err
	})
	if err := s.db.run(ctx, "load limits", &batch); err != nil {
		return sharing.Snapshot{}, err
	}
	for i, name := range names {
		snapshot.States[i] = found[name]
		snapshot.States[i].Name = name
	}
	return snapshot, nil
}

// Swap stores the states whose version is still current, in one transaction and one round trip.
func (s *Limits) Swap(ctx context.Context, states []sharing.State) ([]bool, error) {
	isNew := false
	order := make([]int, len(states))
	for i, state := range states {
		if err := state.Check(); err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
		order[i], isNew = i, isNew || state.Version == 0
	}
	if len(states) == 0 {
		return nil, nil
	}
	// Rows are locked in the order of their names, so that concurrent exchanges do not deadlock.
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(states[a].Name, states[b].Name) })
	stored := make([]bool, len(states))
	var batch pgx.Batch
	batch.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
	if isNew {
		batch.Queue(s.db.sql(unusedLimit), sharing.Retention)
	}
	for _, i := range order {
		state := states[i]
		text, args := swapLimit, []any{state.Name, state.Version, state.Data}
		if state.Version == 0 {
			text, args = newLimit, []any{state.Name, state.Data}
		}
		batch.Queue(s.db.sql(text), args...).Exec(func(tag pgconn.CommandTag) error {
			stored[i] = tag.RowsAffected() == 1
			return nil
		})
	}
	if err := s.db.run(ctx, "store limits", &batch); err != nil {
		return nil, err
	}
	return stored, nil
}
