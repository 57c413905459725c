package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenetdev/tenet/internal/groupcommit"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// flushTime bounds one statement of a flush, whose callers may all have given up.
const flushTime = time.Minute

// flusher stores the entries of concurrent calls together. Calls with a unique key that an open transaction holds wait for it by
// themselves, so that the others do not wait with them. They take turns, so that they occupy only one connection.
type flusher struct {
	// write stores entries, or fails with lockNotAvailable soon if a key is held.
	write   func(ctx context.Context, entries []entry) ([]job.Receipt, error)
	queue   groupcommit.Queue[*flush]
	waiting sync.WaitGroup // calls that wait by themselves
	turn    sync.Mutex     // held by the one of them that tries
}

// flush is one call.
type flush struct {
	*groupcommit.Ticket
	entries  []entry
	receipts []job.Receipt
	shared   bool
}

// size is the number of entries, and one more for every 64 KiB of payload: at most 64 MiB of several calls are stored together. A message
// to the server has room for 1 GiB.
func (call *flush) size() int {
	bytes := 0
	for i := range call.entries {
		bytes += len(call.entries[i].Payload)
	}
	return len(call.entries) + bytes>>16
}

func newFlusher(write func(context.Context, []entry) ([]job.Receipt, error)) *flusher {
	f := &flusher{write: write}
	f.queue.Limit, f.queue.Size, f.queue.Commit = maxCombined, (*flush).size, f.flush
	return f
}

// add stores entries with those of other calls and reports whether there were any.
func (f *flusher) add(ctx context.Context, entries []entry) ([]job.Receipt, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	call := &flush{Ticket: groupcommit.NewTicket(), entries: entries}
	if !f.queue.Add(call) {
		return nil, false, job.ErrClosed
	}
	select {
	case err := <-call.Done():
		return call.receipts, call.shared, err
	case <-ctx.Done(): // a flush that has begun continues
		call.Withdraw()
		return nil, false, ctx.Err()
	}
}

func (f *flusher) flush(group []*flush) {
	group = slices.DeleteFunc(group, func(call *flush) bool { return !call.Take() })
	if len(group) == 0 {
		return
	}
	var entries []entry
	for _, call := range group {
		entries = append(entries, call.entries...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	receipts, err := f.write(ctx, entries)
	switch {
	case code(err) == lockNotAvailable:
		for _, call := range group {
			f.waiting.Go(func() { f.wait(call) })
		}
		return
	case refused(err) && len(group) > 1: // one call's jobs must not make the other calls fail
		for _, call := range group {
			if call.receipts, err = f.write(ctx, call.entries); code(err) == lockNotAvailable {
				f.waiting.Go(func() { f.wait(call) })
				continue
			}
			call.Settle(err)
		}
		return
	}
	for _, call := range group {
		call.shared = len(group) > 1
		if err == nil {
			n := len(call.entries)
			call.receipts, receipts = receipts[:n:n], receipts[n:]
		}
		call.Settle(err)
	}
}

// wait stores the entries of one call once their keys are free.
func (f *flusher) wait(call *flush) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	for backoff := (wait.Backoff{Min: 5 * time.Millisecond, Max: 250 * time.Millisecond}); ; {
		f.turn.Lock()
		receipts, err := f.write(ctx, call.entries)
		f.turn.Unlock()
		if code(err) != lockNotAvailable || backoff.Wait(ctx) != nil {
			call.receipts = receipts
			call.Settle(err)
			return
		}
	}
}

// close waits until everything that was added is stored.
func (f *flusher) close() {
	f.queue.Close()
	f.waiting.Wait()
}

// refused reports whether the server refused the data: SQLSTATE class 22 for values, 23 for constraints.
func refused(err error) bool {
	reported, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (reported.Code[:2] == "22" || reported.Code[:2] == "23")
}
