package sharing

import (
	"context"
	"errors"
	"time"
)

// Store keeps the states of shared limits. Implementations are safe for concurrent use by many processes; storetest.Limits checks
// them.
type Store interface {
	// Load returns the states of the named limits, in the same order, and the store's clock. A limit without a state has version 0.
	Load(ctx context.Context, names []string) (Snapshot, error)
	// Swap stores each state whose version is still that of the state in the store, under the next version, and reports which were
	// stored. Each state stands for itself. After an error, any of them may have been stored. Names must differ.
	Swap(ctx context.Context, states []State) (stored []bool, err error)
}

// Snapshot is what a store held at a time.
type Snapshot struct {
	Now    time.Time // by the store's clock
	States []State
}

// State is the state of one limit.
type State struct {
	Name    string
	Version int64 // of changes, from 1; 0 for a limit without a state
	Data    []byte
}

const (
	// Retention is how long a store keeps a state that nobody changes, at least. A limit that was not used for so long starts anew.
	Retention = 24 * time.Hour
	// MaxName is the length of the longest name that a store accepts, in bytes.
	MaxName = 512
	// MaxData is the length of the longest state that a store accepts, in bytes.
	MaxData = 1 << 20
)

// Errors of [State.Check].
var (
	ErrName = errors.New("sharing: the name of a limit is empty or longer than 512 bytes")
	ErrData = errors.New("sharing: the state of a limit is longer than 1 MiB; fewer processes may share it")
)

// Check reports whether a store may accept the state. Stores call it in Swap.
func (s State) Check() error {
	switch {
	case s.Name == "" || len(s.Name) > MaxName:
		return ErrName
	case len(s.Data) > MaxData:
		return ErrData
	}
	return nil
}
