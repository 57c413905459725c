package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

const (
	ringEvery    = 5 * time.Millisecond // per process
	ringTimeout  = 10 * time.Second
	probeTime    = 3 * time.Second
	reconnectMin = 20 * time.Millisecond
	reconnectMax = 5 * time.Second
)

// notices tell the workers of this and other processes about new work and cancellations.
type notices struct {
	bell    bell
	mark    string             // payload of the notifications that bell sends
	work    wait.Bell          // rings when work may be ready
	cancels wait.Bell          // rings when the cancellation of a running job is requested
	life    context.Context    // ends at Close, and the listening connections with it
	end     context.CancelFunc // of life
}

// bell announces new work: the first time at once, then at most once per ringEvery. The last call is always followed by
// an announcement.
type bell struct {
	near func() // tells the workers of this process, without waiting
	far  func() // notifies other processes

	mu      sync.Mutex // guards all below
	last    time.Time
	pending bool
	closed  bool
	running sync.WaitGroup
	timer   *time.Timer
}

// wake announces work that is committed.
func (b *bell) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending || b.closed {
		return
	}
	if rest := ringEvery - time.Since(b.last); rest > 0 {
		b.pending = true
		b.running.Add(1)
		b.timer = time.AfterFunc(rest, b.strike)
		return
	}
	b.last = time.Now()
	b.near()
	b.running.Go(b.far)
}

func (b *bell) strike() {
	defer b.running.Done()
	b.mu.Lock()
	b.pending, b.last = false, time.Now()
	b.mu.Unlock()
	b.near()
	b.far()
}

// first reports whether an announcement may be made now, by the caller.
func (b *bell) first() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending || time.Since(b.last) < ringEvery {
		return false
	}
	b.last = time.Now()
	return true
}

// stop makes the pending announcement and waits for it.
func (b *bell) stop() {
	b.mu.Lock()
	b.closed = true
	if b.pending && b.timer.Stop() {
		b.timer.Reset(0)
	}
	b.mu.Unlock()
	b.running.Wait()
}

const (
	notifySQL       = `SELECT pg_notify($1, '')`
	notifyMarkedSQL = `SELECT pg_notify($1, $2)`
	cancelPayload   = "cancel" // of notifications about jobs to be cancelled; others are about work
)

// ring signals the workers of this process.
func (j *Jobs) ring() {
	j.limits.news()
	j.work.Ring()
}

// notify notifies other processes, in a transaction of its own that does not wait for the disk: the server serialises commits
// with notifications.
func (j *Jobs) notify() {
	ctx, cancel := context.WithTimeout(context.Background(), ringTimeout)
	defer cancel()
	b := &pgx.Batch{}
	b.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
	b.Queue(notifyMarkedSQL, j.channel(), j.mark)
	if err := j.db.pool.SendBatch(ctx, b).Close(); err != nil {
		j.db.log.Debug("postgres: workers were not notified and find new work by polling", "error", err)
	}
}

func (j *Jobs) channel() string { return "tenet_jobs_" + j.db.name }

// Notify implements job.Notifier. Work of this process is signalled directly. A connection of its own, which is restored when it is
// lost, receives the notifications of other processes. Notify returns ErrNoNotify if notifications do not arrive. The channel is
// closed when ctx ends or the DB is closed.
func (j *Jobs) Notify(ctx context.Context) (<-chan struct{}, error) {
	if j.db.closed.Load() {
		return nil, job.ErrClosed
	}
	conn, err := j.listen(ctx)
	if err != nil {
		return nil, err
	}
	if err := j.probe(ctx, conn); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	j.cancels.Ring() // notifications during the test of the connection were not received
	signals := wait.NewSignal()
	leave := j.work.Join(signals)
	ctx, stop := context.WithCancel(ctx)
	forget := context.AfterFunc(j.life, stop)
	go func() {
		defer close(signals)
		defer leave()
		defer stop()
		defer forget()
		j.forward(ctx, conn, signals)
	}()
	return signals, nil
}

// NotifyCancel implements job.CancelNotifier. It signals requests of this process at once, and those of other processes while
// there is a channel of Notify, whose connection receives them.
func (j *Jobs) NotifyCancel(ctx context.Context) (<-chan struct{}, error) {
	if j.db.closed.Load() {
		return nil, job.ErrClosed
	}
	return j.cancels.Listen(ctx), nil
}

// connect makes a connection beside the pool.
func (db *DB) connect(ctx context.Context) (*pgx.Conn, error) {
	pool := db.pool.Config()
	if pool.BeforeConnect != nil { // for example for passwords that expire
		if err := pool.BeforeConnect(ctx, pool.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, pool.ConnConfig)
}

// listen connects and subscribes.
func (j *Jobs) listen(ctx context.Context) (*pgx.Conn, error) {
	conn, err := j.db.connect(ctx)
	if err != nil {
		return nil, kind.Wrap("listen", err)
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{j.channel()}.Sanitize()); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, kind.Wrap("listen", err)
	}
	return conn, nil
}

// probe checks whether notifications arrive. Poolers accept LISTEN and then give the server's connection to other clients.
func (j *Jobs) probe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, ErrNoNotify)
	defer cancel()
	mark := newMark()
	if _, err := j.db.pool.Exec(ctx, notifyMarkedSQL, j.channel(), mark); err != nil {
		return j.db.wrap("listen", err)
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil && errors.Is(context.Cause(ctx), ErrNoNotify) {
			return ErrNoNotify
		}
		if err != nil {
			return kind.Wrap("listen", err)
		}
		if n.Payload == mark {
			return nil
		}
	}
}

// newMark makes a payload that says who sent a notification.
func newMark() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// forward turns notifications into signals until ctx ends.
func (j *Jobs) forward(ctx context.Context, conn *pgx.Conn, signals wait.Signal) {
	for backoff := (wait.Backoff{Min: reconnectMin, Max: reconnectMax}); ; {
		var err error
		var news *pgconn.Notification // nil for a connection that was just restored and may have missed something
		if conn == nil {
			conn, err = j.listen(ctx)
		} else {
			news, err = conn.WaitForNotification(ctx)
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			if conn != nil {
				_ = conn.Close(ctx)
				conn = nil
				j.db.log.Warn("postgres: the connection for notifications is lost; workers poll until it is restored", "error", err)
			}
			_ = backoff.Wait(ctx)
			continue
		}
		if news != nil { // a restored connection may end at once
			backoff.Reset()
		}
		if news == nil || news.Payload == cancelPayload {
			j.cancels.Ring()
		}
		if news == nil || news.Payload != cancelPayload && news.Payload != j.mark { // the work of this process has been signalled already
			j.limits.news()
			signals.Send()
		}
	}
	if conn != nil {
		ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ended)
	}
}
