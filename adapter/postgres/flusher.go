package postgres

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenetdev/tenet/job"
)

// flushTime bounds one statement of a flush, whose callers may all have gone.
const flushTime = time.Minute

// flusher stores the entries of concurrent calls together. It has a goroutine while there is something to store.
type flusher struct {
	write func(context.Context, []entry) ([]job.Receipt, error)

	mu      sync.Mutex
	waiting []*flush
	busy    bool
	closed  bool
	running sync.WaitGroup
}

// flush is one call.
type flush struct {
	ctx      context.Context
	entries  []entry
	receipts []job.Receipt
	shared   bool
	err      error
	done     chan struct{}
}

// add stores entries with those of other calls and reports whether there were any.
func (f *flusher) add(ctx context.Context, entries []entry) ([]job.Receipt, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	call := &flush{ctx: ctx, entries: entries, done: make(chan struct{})}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, false, job.ErrClosed
	}
	f.waiting = append(f.waiting, call)
	if !f.busy {
		f.busy = true
		f.running.Go(f.run)
	}
	f.mu.Unlock()
	select {
	case <-call.done:
		return call.receipts, call.shared, call.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// stop waits until everything that was added is stored.
func (f *flusher) stop() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.running.Wait()
}

func (f *flusher) run() {
	for {
		runtime.Gosched() // first those who are about to add: most of all the callers of the last group, which were just woken
		group, entries := f.take()
		if group == nil {
			return
		}
		f.flush(group, entries)
		for _, call := range group {
			close(call.done)
		}
	}
}

// take returns the calls of the next statement. Nil means that nothing is waiting and the goroutine must end.
func (f *flusher) take() (group []*flush, entries []entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(f.waiting) && (n == 0 || len(entries)+len(f.waiting[n].entries) <= maxCombined) {
		if call := f.waiting[n]; call.ctx.Err() != nil {
			call.err = call.ctx.Err()
		} else {
			entries = append(entries, call.entries...)
		}
		n++
	}
	group = f.waiting[:n:n]
	if f.waiting = f.waiting[n:]; n == 0 {
		f.waiting, f.busy = nil, false
		return nil, nil
	}
	return group, entries
}

func (f *flusher) flush(group []*flush, entries []entry) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if len(entries) == 0 {
		return
	}
	receipts, err := f.write(ctx, entries)
	if refused(err) && len(group) > 1 { // one call's jobs must not fail those of the others
		for _, call := range group {
			if call.err == nil {
				call.receipts, call.err = f.write(ctx, call.entries)
			}
		}
		return
	}
	for _, call := range group {
		if call.err != nil {
			continue
		}
		call.err, call.shared = err, len(group) > 1
		if err == nil {
			n := len(call.entries)
			call.receipts, receipts = receipts[:n:n], receipts[n:]
		}
	}
}

// refused reports whether the server refused what it was given: SQLSTATE class 22 for values, 23 for constraints.
func refused(err error) bool {
	var reported *pgconn.PgError
	return errors.As(err, &reported) && (reported.Code[:2] == "22" || reported.Code[:2] == "23")
}
