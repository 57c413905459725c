package measure

import "context"

// System is a job system on an empty store. Insert is safe for concurrent use; the other methods are for one goroutine.
type System interface {
	// Insert stores one job that does nothing.
	Insert(ctx context.Context) error
	// InsertMany stores n of them in the fastest way that the system offers.
	InsertMany(ctx context.Context, n int) error
	// Work starts the system's worker, whose handler calls ran and returns. The returned function stops it and returns when
	// everything that ran is recorded.
	Work(ctx context.Context, ran func()) (stop func() error, err error)
	// Left returns the number of stored jobs that are not recorded as done.
	Left(ctx context.Context) (int, error)
	Close() error
}

// Settler is a System that can tidy up after it is filled, so that all systems start from the same state.
type Settler interface {
	Settle(ctx context.Context) error
}

// Claimer is a System that can take jobs without running them.
type Claimer interface {
	// Claim takes n jobs and returns how many it got.
	Claim(ctx context.Context, n int) (int, error)
}
