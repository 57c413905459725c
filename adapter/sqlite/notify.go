package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/fanout"
)

// lookEvery is how often a listening process checks whether others have changed the file. The check reads shared memory, not
// the disk.
const lookEvery = 50 * time.Millisecond

// bell signals listeners that work may be ready.
type bell struct {
	mu        sync.Mutex // guards all below
	listeners map[chan struct{}]struct{}
	stop      context.CancelFunc // ends watching; nil without listeners
	closed    bool
	watching  sync.WaitGroup

	cancels fanout.Bell // rings when the cancellation of a running job is requested
}

func (b *bell) init() { b.listeners = map[chan struct{}]struct{}{} }

// ring signals every listener.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.listeners {
		signal(c)
	}
}

// close ends all notifications and waits for the watcher.
func (b *bell) close() {
	b.mu.Lock()
	b.closed = true
	b.cancels.Close()
	for c := range b.listeners {
		close(c)
	}
	clear(b.listeners)
	b.rest()
	b.mu.Unlock()
	b.watching.Wait()
}

// rest ends the watcher if there are no listeners. The caller holds mu.
func (b *bell) rest() {
	if len(b.listeners) == 0 && b.stop != nil {
		b.stop()
		b.stop = nil
	}
}

// Notify implements job.Notifier: at once for work of this DB, within a tenth of a second for work of other processes and
// of transactions. The channel is closed when ctx ends or the DB is closed.
func (s *Jobs) Notify(ctx context.Context) (<-chan struct{}, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	b := &s.db.bell
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		close(c)
		return c, nil
	}
	b.listeners[c] = struct{}{}
	if b.stop == nil {
		watch, stop := context.WithCancel(context.Background())
		b.stop = stop
		b.watching.Go(func() { s.db.watch(watch) })
	}
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, open := b.listeners[c]; !open {
			return
		}
		delete(b.listeners, c)
		close(c)
		b.rest()
	})
	return c, nil
}

// NotifyCancel implements job.CancelNotifier: within a tenth of a second, whichever process asked. The channel is closed
// when ctx ends or the DB is closed.
func (s *Jobs) NotifyCancel(ctx context.Context) (<-chan struct{}, error) {
	if _, err := s.Notify(ctx); err != nil { // its listener keeps the watcher running
		return nil, err
	}
	return s.db.bell.cancels.Listen(ctx), nil
}

// watch rings when the file was changed, and after every failed check, until ctx ends.
func (db *DB) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last, requests := int64(-1), int64(-1)
	for ctx.Err() == nil {
		conn, err := db.pool.Conn(ctx)
		for err == nil {
			version := int64(0)
			err = conn.QueryRowContext(background, `PRAGMA data_version`).Scan(&version)
			if err != nil {
				break
			}
			if version != last { // also the first time: earlier changes may not have been signalled
				db.bell.ring()
				requests = db.lookForCancels(conn, requests)
			}
			last = version
			select {
			case <-ctx.Done():
				_ = conn.Close()
				return
			case <-tick.C:
			}
		}
		if conn != nil {
			_ = conn.Close()
		}
		last = -1
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// lookForCancels rings when the count of requests to cancel running jobs has changed, and returns the count. If it cannot
// be read, workers learn of the requests when they extend their leases.
func (db *DB) lookForCancels(conn *sql.Conn, last int64) int64 {
	requests := last
	if err := conn.QueryRowContext(background, `SELECT requests FROM tenet_cancel`).Scan(&requests); err == nil && requests != last {
		db.bell.cancels.Ring()
	}
	return requests
}
