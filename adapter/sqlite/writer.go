package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/groupcommit"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// writer owns the connection that writes. It runs all waiting operations as one transaction and commits, with one flush for all
// of them. It does not wait for a group to grow; operations that arrive meanwhile form the next group.
type writer struct {
	db      *DB
	session *session
	queue   groupcommit.Queue[*operation]
	once    sync.Once
	err     error // of closing
}

// maxGroup bounds the operations in a transaction, and so how long the first of them waits for the last.
const maxGroup = 1024

// operation is a caller's write: inserts, which are stored together with those of the group, or run, which does anything else.
// run may be called twice, so it overwrites its results.
type operation struct {
	*groupcommit.Ticket
	inserts  []job.Insert
	receipts []job.Receipt
	run      func(q querier) error
	err      error // of this operation alone
}

func newWriter(db *DB, conn *sql.Conn) *writer {
	w := &writer{db: db, session: newSession(background, conn)}
	w.queue.Limit, w.queue.Commit = maxGroup, w.commit
	return w
}

// write queues an operation and waits for its commit. An operation whose context ends before its turn does not run.
func (w *writer) write(ctx context.Context, what string, o *operation) error {
	if err := ctx.Err(); err != nil {
		return w.db.wrap(what, err)
	}
	o.Ticket = groupcommit.NewTicket()
	if !w.queue.Add(o) {
		return job.ErrClosed
	}
	select {
	case err := <-o.Done():
		return w.db.wrap(what, err)
	case <-ctx.Done():
		if o.Withdraw() {
			return w.db.wrap(what, w.db.ended(ctx))
		}
		return w.db.wrap(what, <-o.Done())
	}
}

// close commits the queued operations and closes the connection.
func (w *writer) close() error {
	w.queue.Close()
	w.once.Do(func() { w.err = w.session.close() })
	return w.err
}

func (w *writer) closed() bool { return w.queue.Closed() }

// commit runs a group as one transaction. If an operation fails, commit rolls back and runs the group again with a savepoint
// before each operation, so that only the failing ones are undone.
func (w *writer) commit(group []*operation) {
	err := w.db.lock(background, func() error { return w.begin(group) }, w.session.rollback)
	group = slices.DeleteFunc(group, func(o *operation) bool { return !o.Take() }) // from here on callers wait for the outcome
	if err == nil {
		err = w.together(group)
	}
	if err != nil && w.session.inTransaction {
		w.session.rollback()
		if err = w.db.lock(background, func() error { return w.begin(group) }, w.session.rollback); err == nil {
			err = w.apart(group)
		}
	}
	if err == nil {
		err = w.session.commit()
	}
	w.session.rollback()
	if err == nil && w.session.ready {
		w.db.bell.work.Ring()
	}
	for _, o := range group {
		o.Settle(cmp.Or(o.err, err))
	}
}

// begin tries to take the file's write lock. It gives up when no caller waits for the group any more.
func (w *writer) begin(group []*operation) error {
	w.session.ready = false
	for _, o := range group {
		if !o.Withdrawn() {
			return w.session.begin(`BEGIN IMMEDIATE`)
		}
	}
	return context.Canceled
}

// together runs a group with all inserts as one batch.
func (w *writer) together(group []*operation) error {
	var inserts []job.Insert
	for _, o := range group {
		inserts = append(inserts, o.inserts...)
	}
	receipts, err := enqueue(w.session, inserts, w.db.jobs.durability())
	if err != nil {
		return err
	}
	for _, o := range group {
		if n := len(o.inserts); n > 0 {
			o.receipts, receipts = receipts[:n:n], receipts[n:]
			continue
		}
		if err := o.run(w.session); err != nil {
			return err
		}
	}
	return nil
}

// apart runs the operations of a group one by one and notes the errors of those that fail. It returns an error only if
// the transaction is lost.
func (w *writer) apart(group []*operation) error {
	for _, o := range group {
		if err := w.session.exec(`SAVEPOINT operation`); err != nil {
			return err
		}
		totals, causes := maps.Clone(w.session.totals), maps.Clone(w.session.causes)
		if len(o.inserts) > 0 {
			o.receipts, o.err = enqueue(w.session, o.inserts, w.db.jobs.durability())
		} else {
			o.err = o.run(w.session)
		}
		if o.err == nil && w.session.gates != nil {
			o.err = tend(w.session, now())
		}
		if o.err != nil {
			w.session.gates = nil
			w.session.totals, w.session.causes = totals, causes
			if err := w.session.exec(`ROLLBACK TO operation`); err != nil {
				return err // such as a full disk, which ends the whole transaction
			}
		}
		if err := w.session.exec(`RELEASE operation`); err != nil {
			return err
		}
	}
	return nil
}

// background is the context of the writer's statements: a group that has begun is finished even if its callers gave up.
var background = context.Background()

// pause waits for about a millisecond.
func pause(ctx context.Context) error {
	_ = wait.For(ctx, 200*time.Microsecond+rand.N(1800*time.Microsecond))
	return ctx.Err()
}
