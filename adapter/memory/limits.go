package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tenetdev/tenet/sharing"
)

// Limits is a sharing.Store for the executors of one process. It is safe for concurrent use. Use it for tests: processes share limits
// through SQLite, PostgreSQL or Redis.
type Limits struct {
	door   // guards the fields below
	states map[string]limitState
	swept  time.Time
}

type limitState struct {
	version int64
	data    []byte
	changed time.Time
}

var _ sharing.Store = (*Limits)(nil)

var errLimitsClosed = errors.New("memory: the store of limits is closed")

func newLimits() *Limits { return &Limits{states: map[string]limitState{}} }

// Load returns copies of the named states and the time of package time.
func (s *Limits) Load(ctx context.Context, names []string) (sharing.Snapshot, error) {
	if err := s.lock(ctx, errLimitsClosed); err != nil {
		return sharing.Snapshot{}, err
	}
	defer s.mu.Unlock()
	now := time.Now()
	states := make([]sharing.State, len(names))
	for i, name := range names {
		state := s.states[name]
		states[i] = sharing.State{Name: name, Version: state.version, Data: bytes.Clone(state.data)}
	}
	return sharing.Snapshot{Now: now, States: states}, nil
}

// Swap stores the states whose version is still current.
func (s *Limits) Swap(ctx context.Context, states []sharing.State) ([]bool, error) {
	for _, state := range states {
		if err := state.Check(); err != nil {
			return nil, fmt.Errorf("memory: %w", err)
		}
	}
	if err := s.lock(ctx, errLimitsClosed); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := time.Now()
	s.sweep(now)
	stored := make([]bool, len(states))
	for i, state := range states {
		if s.states[state.Name].version == state.Version {
			s.states[state.Name] = limitState{state.Version + 1, bytes.Clone(state.Data), now}
			stored[i] = true
		}
	}
	return stored, nil
}

// sweep drops the states that nobody has changed for sharing.Retention, once in that time.
func (s *Limits) sweep(now time.Time) {
	if now.Sub(s.swept) < sharing.Retention {
		return
	}
	s.swept = now
	maps.DeleteFunc(s.states, func(_ string, state limitState) bool { return now.Sub(state.changed) >= sharing.Retention })
}

func (s *Limits) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.states = true, nil
}
