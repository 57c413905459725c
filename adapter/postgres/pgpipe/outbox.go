package pgpipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tenetdev/tenet/pipeline"
)

// Outbox is a pipeline.Source that follows a table in the order of its transactions' commits; rows of one commit, and of
// commits between two looks at the table, come in the order of their seq. It is also a pipeline.Acker, Nacker, Extender and
// Checker, and safe for concurrent use.
//
// The position is kept under the consumer's name, together with what was acknowledged beyond it: what is not acknowledged
// comes again after a restart, and nothing else does. With a concurrency of 1 the order is that of processing too, except
// for rows that are given back. Counts of deliveries begin with the Outbox.
//
// It reads at most 10,000 rows ahead of the first that is not acknowledged: then Fetch waits, even where it is asked not to,
// until that one is, or a row that was given back is due. While another reader has the cursor, Fetch returns nothing.
type Outbox struct {
	*table
	cursor     cursor
	look, page string // statements

	saving sync.Mutex    // one Ack at a time; taken before mu
	moved  chan struct{} // holds one when something was acknowledged or given back

	mu      sync.Mutex
	owner   string // "" while the cursor is not ours
	renewed time.Time
	window  *window // what is being read
	saved   position
	behind  map[int64]bool // acknowledged by an earlier reader, and not passed yet
	pending []*row         // from the first that is not acknowledged on, in order
	back    []*row         // given back, in the order in which they are due
}

// window is what was committed between two snapshots.
type window struct {
	base, target string
	after, upTo  int64 // of seq: what has been read, and where it ends
}

// row is a delivery's token.
type row struct {
	transaction *pipeline.Transaction
	at          position
	owner       string
	count       int
	acked       bool
	due         time.Time
}

func (r *row) delivery() pipeline.Delivery {
	r.count++
	return pipeline.Delivery{Transaction: r.transaction, Token: r, Count: r.count}
}

const mostAhead = 10_000

// OpenOutbox connects to the server of a URL without Options in it, checks the table, and makes the table of cursors where
// it is missing. Close it after the engine's Run.
func OpenOutbox(ctx context.Context, server string, o Options) (*Outbox, error) {
	if o.Consumer == "" {
		return nil, errors.New("postgres: the consumer is missing; name the reader of the outbox with Options.Consumer")
	}
	t, err := open(ctx, server, o)
	if err != nil {
		return nil, err
	}
	out := &Outbox{table: t, moved: make(chan struct{}, 1)}
	err = errors.Join(
		out.needsBody(false),
		out.needs("seq", out.o.Seq, notNull(ofType("bigint", "integer")), "be bigint NOT NULL"),
		out.needs("tx", out.o.TX, notNull(ofType("xid8")), "be xid8 NOT NULL"),
	)
	if err == nil {
		err = out.prepareCursor(ctx)
	}
	if err != nil {
		t.pool.Close()
		return nil, err
	}
	out.prepareReading()
	return out, nil
}

// Fetch implements pipeline.Source.
func (o *Outbox) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	return o.poll(ctx, r.Wait, func() ([]pipeline.Delivery, error) { return o.take(ctx, r.Max) })
}

func (o *Outbox) take(ctx context.Context, most int) ([]pipeline.Delivery, error) {
	for {
		if owned, err := o.own(ctx); !owned {
			return nil, err
		}
		if due := o.due(most); len(due) > 0 {
			return due, nil
		}
		w, room := o.reading()
		if room <= 0 { // an empty fetch would say that there is nothing more
			if err := o.await(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if w == nil {
			next, err := o.next(ctx)
			if next == nil {
				return nil, err
			}
			w = next
		}
		n := min(most, room)
		rows, err := o.readPage(ctx, w, n)
		if err != nil {
			return nil, err
		}
		if got := o.add(w, rows, len(rows) < n); len(got) > 0 {
			return got, nil
		}
	}
}

// own makes sure that the cursor is ours, and begins at its position where that is new.
func (o *Outbox) own(ctx context.Context) (bool, error) {
	o.mu.Lock()
	owner, fresh := o.owner, time.Since(o.renewed) < o.ExtendEvery()
	o.mu.Unlock()
	if owner != "" && fresh {
		return true, nil
	}
	if owner != "" {
		err := o.renew(ctx, owner)
		if !errors.Is(err, ErrLost) {
			return err == nil, kind.Wrap("renew the lease", err)
		}
	}
	began := time.Now()
	owner, at, ahead, err := o.cursor.take(ctx)
	if owner == "" || err != nil {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owner, o.renewed, o.saved, o.pending, o.back = owner, began, at, nil, nil
	o.window = nil
	if at.base != at.target { // the earlier reader may have left the window in the middle
		o.window = &window{base: at.base, target: at.target, after: at.seq, upTo: math.MaxInt64}
	}
	o.behind = make(map[int64]bool, len(ahead))
	for _, seq := range ahead {
		o.behind[seq] = true
	}
	return true, nil
}

func (o *Outbox) renew(ctx context.Context, owner string) error {
	began := time.Now()
	err := o.cursor.keep(ctx, owner)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.owner != owner:
	case err == nil:
		o.renewed = began
	case errors.Is(err, ErrLost):
		o.owner = ""
	}
	return err
}

// due are rows that were given back and whose time has come.
func (o *Outbox) due(most int) (list []pipeline.Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for now := time.Now(); len(o.back) > 0 && len(list) < most && !o.back[0].due.After(now); o.back = o.back[1:] {
		list = append(list, o.back[0].delivery())
	}
	return list
}

// reading is the window that is being read, and how many rows may be.
func (o *Outbox) reading() (*window, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.window, mostAhead - len(o.pending)
}

// await waits for room, or for anything that may bring some.
func (o *Outbox) await(ctx context.Context) error {
	timer := time.NewTimer(o.o.Poll)
	defer timer.Stop()
	select {
	case <-o.moved:
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("postgres: %d rows are read ahead of one that is not acknowledged: %w", mostAhead, context.Cause(ctx))
	}
	return nil
}

// tell ends an await.
func (o *Outbox) tell() {
	select {
	case o.moved <- struct{}{}:
	default:
	}
}

// next looks for what was committed since the last window. It returns nil where that is nothing.
func (o *Outbox) next(ctx context.Context) (*window, error) {
	o.mu.Lock()
	base := o.saved.target
	if n := len(o.pending); n > 0 {
		base = o.pending[n-1].at.target
	}
	o.mu.Unlock()
	w := &window{base: base}
	var least, most *int64
	if err := o.pool.QueryRow(ctx, o.look, base).Scan(&w.target, &least, &most); err != nil {
		return nil, kind.Wrap("look", err)
	}
	if least == nil {
		return nil, nil
	}
	w.after, w.upTo = *least-1, *most
	o.mu.Lock()
	defer o.mu.Unlock()
	o.window = w
	return w, nil
}

func (o *Outbox) readPage(ctx context.Context, w *window, n int) (list []*row, err error) {
	rows, err := o.pool.Query(ctx, o.page, w.base, w.target, w.after, w.upTo, n)
	if err != nil {
		return nil, kind.Wrap("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		var b body
		r := &row{at: position{base: w.base, target: w.target}}
		if err := rows.Scan(append([]any{&r.at.seq}, b.targets()...)...); err != nil {
			return nil, kind.Wrap("read", err)
		}
		r.transaction = b.transaction()
		list = append(list, r)
	}
	return list, kind.Wrap("read", rows.Err())
}

// add notes what was read of a window and hands out what was not acknowledged before.
func (o *Outbox) add(w *window, rows []*row, last bool) (list []pipeline.Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range rows {
		w.after, r.owner = r.at.seq, o.owner
		o.pending = append(o.pending, r)
		if o.behind[r.at.seq] {
			delete(o.behind, r.at.seq)
			r.acked = true
			continue
		}
		list = append(list, r.delivery())
	}
	o.pass()
	if last {
		o.window = nil
		if len(o.pending) == 0 { // nothing of it is left to be written down with a row
			o.saved = position{base: w.base, target: w.target, seq: math.MaxInt64}
		}
	}
	return list
}

// pass moves the position over what is acknowledged without a gap. The caller holds mu.
func (o *Outbox) pass() {
	for len(o.pending) > 0 && o.pending[0].acked {
		o.saved = o.pending[0].at
		o.pending = o.pending[1:]
	}
}

// Ack implements pipeline.Acker. It repeats what a broken connection or a restarting server was in the way of, until ctx
// ends. Where another reader has taken over, the errors are [ErrLost].
func (o *Outbox) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	o.saving.Lock()
	defer o.saving.Unlock()
	defer o.tell()
	owner, at, ahead := o.mark(done)
	err := ErrLost
	if owner != "" {
		err = persist(ctx, func() error { return o.cursor.store(ctx, owner, at, ahead) })
	}
	if errors.Is(err, ErrLost) {
		o.lose(owner)
	}
	return o.verdicts("acknowledge", done, owner, err)
}

// mark notes what is acknowledged, and returns what has to be stored.
func (o *Outbox) mark(done []pipeline.Delivery) (owner string, at position, ahead []int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range done {
		if r, ok := d.Token.(*row); ok && r.owner == o.owner {
			r.acked = true
		}
	}
	o.pass()
	ahead = []int64{}
	for _, r := range o.pending {
		if r.acked {
			ahead = append(ahead, r.at.seq)
		}
	}
	for seq := range o.behind {
		ahead = append(ahead, seq)
	}
	return o.owner, o.saved, ahead
}

// lose notes that the cursor is another reader's.
func (o *Outbox) lose(owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owner == owner {
		o.owner = ""
	}
}

// verdicts are the errors of deliveries, in their order; nil where there is none.
func (o *Outbox) verdicts(what string, list []pipeline.Delivery, owner string, err error) []error {
	var errs []error
	for i, d := range list {
		verdict := kind.Wrap(what, err)
		if r, ok := d.Token.(*row); err == nil && (!ok || r.owner != owner) {
			verdict = ErrLost
		}
		if verdict == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(list))
		}
		errs[i] = verdict
	}
	return errs
}

// Nack implements pipeline.Nacker: the row comes again from this Outbox after the delay, while those behind it go on.
func (o *Outbox) Nack(_ context.Context, d pipeline.Delivery, delay time.Duration, _ error) error {
	defer o.tell()
	o.mu.Lock()
	defer o.mu.Unlock()
	r, ok := d.Token.(*row)
	if !ok || r.owner != o.owner || o.owner == "" {
		return ErrLost
	}
	if r.acked || slices.Contains(o.back, r) {
		return nil
	}
	r.due = time.Now().Add(delay)
	at, _ := slices.BinarySearchFunc(o.back, r, func(a, b *row) int {
		if a.due.After(b.due) {
			return 1
		}
		return -1
	})
	o.back = slices.Insert(o.back, at, r)
	return nil
}

// Extend implements pipeline.Extender: it keeps the cursor, and with it everything that was handed out.
func (o *Outbox) Extend(ctx context.Context, held []pipeline.Delivery) []error {
	o.mu.Lock()
	owner := o.owner
	o.mu.Unlock()
	err := ErrLost
	if owner != "" {
		err = o.renew(ctx, owner)
	}
	return o.verdicts("extend", held, owner, err)
}

// ExtendEvery implements pipeline.Extender: a third of the lease, so that two attempts may fail.
func (o *Outbox) ExtendEvery() time.Duration { return o.o.Lease / 3 }

// Close leaves the cursor to the next reader and ends all connections.
func (o *Outbox) Close() error {
	o.mu.Lock()
	owner := o.owner
	o.owner = ""
	o.mu.Unlock()
	var err error
	if owner != "" {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		err = kind.Wrap("leave the cursor", o.cursor.free(ctx, owner))
	}
	o.pool.Close()
	return err
}

const leaveTimeout = 5 * time.Second
