package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
)

// lookEvery is how often a listening process checks whether others have changed the file. The check reads shared memory, not
// the disk.
const lookEvery = 50 * time.Millisecond

// bell signals listeners, and watches the file while it has any.
type bell struct {
	work    wait.Bell // rings when work may be ready
	cancels wait.Bell // rings when the cancellation of a running job is requested

	mu        sync.Mutex // guards all below
	listeners int
	stop      context.CancelFunc // ends watching
	closed    bool
	watching  sync.WaitGroup
}

// listen returns a channel of work. It starts the watcher for the first listener, and stops it after the last.
func (b *bell) listen(ctx context.Context, watch func(context.Context)) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.work.Listen(ctx)
	if b.closed {
		return c
	}
	if b.listeners++; b.listeners == 1 {
		var watched context.Context
		watched, b.stop = context.WithCancel(context.Background())
		b.watching.Go(func() { watch(watched) })
	}
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.listeners--; b.listeners == 0 {
			b.stop()
		}
	})
	return c
}

// close ends all notifications and waits for the watcher.
func (b *bell) close() {
	b.mu.Lock()
	b.closed = true
	b.work.Close()
	b.cancels.Close()
	if b.stop != nil {
		b.stop()
	}
	b.mu.Unlock()
	b.watching.Wait()
}

// Notify implements job.Notifier: at once for work of this DB, within a tenth of a second for work of other processes and
// of transactions. The channel is closed when ctx ends or the DB is closed.
func (s *Jobs) Notify(ctx context.Context) (<-chan struct{}, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s.db.bell.listen(ctx, s.db.watch), nil
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
				db.bell.work.Ring()
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
