// Package virtual is what the production code asks of a world whose time is simulated; see package simulate.
package virtual

import "time"

// Epoch is the time of day at which every world begins.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// World runs tasks in virtual time, one at a time. All methods except Now may be called by the running task only.
type World interface {
	// Now returns the time since [Epoch].
	Now() time.Duration
	// Await suspends the task until d has passed or, if ready is not nil, until Wake is called with the same key while ready
	// returns true.
	Await(d time.Duration, key any, ready func() bool)
	// Wake resumes the tasks that wait for key and are ready, and returns how many. They run after the running task has been suspended.
	Wake(key any) int
	// Go starts a task. It runs after the running task has been suspended.
	Go(task func())
	// Seed returns the seed of the running task's call.
	Seed() uint64
}
