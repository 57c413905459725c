package groupcommit

import (
	"runtime"
	"sync"
)

// Queue gathers operations and commits them, one group at a time. It has a goroutine while there is something to commit. It
// is safe for concurrent use; its exported fields must not change after the first Add.
type Queue[T any] struct {
	// Commit stores a group, in the order in which its operations were added.
	Commit func(group []T)
	// Limit bounds a group, and so how long its first operation waits for its last. An operation that is larger by itself is
	// a group of its own.
	Limit int
	// Size is how much of the limit an operation takes up. Nil means 1.
	Size func(operation T) int

	mu      sync.Mutex // guards what follows
	waiting []T
	busy    bool
	closed  bool
	running sync.WaitGroup
}

// Add hands an operation over. It reports false if the queue is closed.
func (q *Queue[T]) Add(operation T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, operation)
	if !q.busy {
		q.busy = true
		q.running.Go(q.run)
	}
	return true
}

// Close refuses further operations, and waits until those that were added have been committed.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.running.Wait()
}

// Closed reports whether Close was called.
func (q *Queue[T]) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

func (q *Queue[T]) run() {
	for {
		q.gather()
		group := q.next()
		if group == nil {
			return
		}
		q.Commit(group)
	}
}

// gather lets other goroutines run for as long as they add operations: the callers of the last group are about to.
func (q *Queue[T]) gather() {
	for before := -1; ; {
		q.mu.Lock()
		n := len(q.waiting)
		q.mu.Unlock()
		if n <= before || n >= q.Limit {
			return
		}
		before = n
		runtime.Gosched()
	}
}

// next returns the next group. Nil means that nothing waits and the goroutine must end.
func (q *Queue[T]) next() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for ; n < len(q.waiting); n++ {
		if size += q.size(q.waiting[n]); size > q.Limit && n > 0 {
			break
		}
	}
	if n == 0 {
		q.waiting, q.busy = nil, false
		return nil
	}
	group := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return group
}

func (q *Queue[T]) size(operation T) int {
	if q.Size == nil {
		return 1
	}
	return q.Size(operation)
}
