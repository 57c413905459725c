package sqlite

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/sharing"
)

// Limits is a sharing.Store for the processes of one machine. Its clock is the machine's. It is safe for concurrent use.
type Limits struct{ db *DB }

var _ sharing.Store = (*Limits)(nil)

// Limits is the file's store of shared limits.
func (db *DB) Limits() *Limits { return &Limits{db} }

const microseconds = `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`

// Load reads the named states from one snapshot of the file.
func (s *Limits) Load(ctx context.Context, names []string) (sharing.Snapshot, error) {
	snapshot := sharing.Snapshot{States: make([]sharing.State, len(names))}
	err := s.db.jobs.view(ctx, "load limits", func(q querier) error {
		if err := one(q, selection{text: `SELECT ` + microseconds, into: []any{(*instant)(&snapshot.Now)}}); err != nil {
			return err
		}
		for i, name := range names {
			state := sharing.State{Name: name}
			found := selection{
				text: `SELECT version, data FROM tenet_limit WHERE name = ?1`, args: []any{name}, into: []any{&state.Version, &state.Data},
			}
			if err := one(q, found); err != nil {
				return err
			}
			snapshot.States[i] = state
		}
		return nil
	})
	return snapshot, err
}

// Swap stores the states whose version is still current, in one transaction.
func (s *Limits) Swap(ctx context.Context, states []sharing.State) ([]bool, error) {
	for _, state := range states {
		if err := state.Check(); err != nil {
			return nil, fmt.Errorf("sqlite: %w", err)
		}
	}
	if len(states) == 0 {
		return nil, nil
	}
	return written(ctx, s.db.jobs, "store limits", func(q querier) ([]bool, error) {
		stored := make([]bool, len(states))
		for i, state := range states {
			n, err := swapLimit(q, state)
			if err != nil {
				return nil, err
			}
			stored[i] = n == 1
		}
		return stored, nil
	})
}

// swapLimit stores one state and returns 1, or 0 if its version is not current. A new limit drops those out of use.
func swapLimit(q querier, state sharing.State) (int64, error) {
	if state.Version > 0 {
		return q.update(`UPDATE tenet_limit SET version = version + 1, data = ?3, changed = `+microseconds+` WHERE name = ?1 AND version = ?2`,
			state.Name, state.Version, state.Data)
	}
	if err := q.exec(`DELETE FROM tenet_limit WHERE changed < `+microseconds+` - ?1`, sharing.Retention.Microseconds()); err != nil {
		return 0, err
	}
	return q.update(`INSERT INTO tenet_limit (name, version, data, changed) VALUES (?1, 1, ?2, `+microseconds+`) ON CONFLICT DO NOTHING`,
		state.Name, state.Data)
}
