package pgpipe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/pipeline"
)

// Outbox is a pipeline.Source that reads the rows of a table in commit order. Rows of the same commit, and of commits between
// two queries, are ordered by seq. It is also a pipeline.Acker, Nacker, Extender and Checker, and safe for concurrent use.
//
// The cursor holds the consumer's position and the rows acknowledged beyond it: after a restart, exactly the rows that are not
// acknowledged are delivered again. With a concurrency of 1, rows are also processed in this order, except those that are
// given back. Delivery counts start at 1 for each Outbox.
//
// Outbox reads at most 10,000 rows ahead of the first that is not acknowledged. Then Fetch waits, even if it is asked not to,
// until that row is acknowledged, or a row that was given back is due. While another reader has the cursor, Fetch returns no
// rows.
type Outbox struct {
	*table
	cursor       cursor
	window, page string // statements

	saving  sync.Mutex  // one Ack at a time; taken before mu
	settled wait.Signal // receives a value when a row was acknowledged or given back

	mu      sync.Mutex
	owner   string // "" while another reader has the cursor
	renewed time.Time
	current *window // the window that is being read
	saved   position
	ahead   map[int64]bool // acknowledged by an earlier reader, but not read again yet
	pending []*row         // in order, from the first that is not acknowledged
	back    []*row         // given back, in the order in which they are due
}

// window is the set of rows committed between two snapshots.
type window struct {
	base, target string
	after, upTo  int64 // the last seq that has been read, and the last of the window
}

// row is a delivery's token.
type row struct {
	transaction *pipeline.Transaction
	at          position
	owner       string
	count       int // of the last delivery or, once it was given back, of the next one
	acked       bool
	due         time.Time
}

func (r *row) delivery() pipeline.Delivery {
	return pipeline.Delivery{Transaction: r.transaction, Token: r, Count: r.count}
}

const maxAhead = 10_000

// OpenOutbox connects to the server of a URL without Options in it, checks the table, and creates the table of cursors if it
// is missing. Close it after the engine's Run.
func OpenOutbox(ctx context.Context, server string, o Options) (*Outbox, error) {
	if o.Consumer == "" {
		return nil, errors.New("postgres: the consumer is missing; name the reader of the outbox with Options.Consumer")
	}
	t, err := open(ctx, server, o)
	if err != nil {
		return nil, err
	}
	out := &Outbox{table: t, settled: wait.NewSignal()}
	err = errors.Join(
		out.needsBody(notNull(anyType), "be NOT NULL"),
		out.needs("seq", out.o.Seq, notNull(numbered), "be bigint NOT NULL, and unique"),
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
		w, room := o.currentWindow()
		if room <= 0 { // an empty fetch would mean that there are no more rows
			if err := o.await(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if w == nil {
			next, err := o.nextWindow(ctx)
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

// own renews or acquires the lease of the cursor. A new owner starts at the cursor's position.
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
	owner, at, ahead, err := o.cursor.acquire(ctx)
	if owner == "" || err != nil {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owner, o.renewed, o.saved, o.pending, o.back = owner, began, at, nil, nil
	o.current = nil
	if at.base != at.target { // the earlier reader may have stopped in the middle of the window
		o.current = &window{base: at.base, target: at.target, after: at.seq, upTo: math.MaxInt64}
	}
	o.ahead = make(map[int64]bool, len(ahead))
	for _, seq := range ahead {
		o.ahead[seq] = true
	}
	return true, nil
}

func (o *Outbox) renew(ctx context.Context, owner string) error {
	began := time.Now()
	err := o.cursor.extend(ctx, owner)
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

// due returns rows that were given back and whose delay is over.
func (o *Outbox) due(most int) (list []pipeline.Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for now := time.Now(); len(o.back) > 0 && len(list) < most && !o.back[0].due.After(now); o.back = o.back[1:] {
		list = append(list, o.back[0].delivery())
	}
	return list
}

// currentWindow returns the window that is being read, and how many more rows may be read.
func (o *Outbox) currentWindow() (*window, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current, maxAhead - len(o.pending)
}

// await waits until a row is acknowledged or given back, for at most a poll interval.
func (o *Outbox) await(ctx context.Context) error {
	if _, err := wait.ForSignal(ctx, o.o.Poll, o.settled); err != nil {
		return fmt.Errorf("postgres: %d rows have been read ahead of one that is not acknowledged: %w", maxAhead, err)
	}
	return nil
}

// nextWindow returns the rows committed since the last window, or nil if there are none.
func (o *Outbox) nextWindow(ctx context.Context) (*window, error) {
	o.mu.Lock()
	base := o.saved.target
	if n := len(o.pending); n > 0 {
		base = o.pending[n-1].at.target
	}
	o.mu.Unlock()
	w := &window{base: base}
	var least, most *int64
	if err := o.pool.QueryRow(ctx, o.window, base).Scan(&w.target, &least, &most); err != nil {
		return nil, kind.Wrap("read", err)
	}
	if least == nil {
		return nil, nil
	}
	w.after, w.upTo = *least-1, *most
	o.mu.Lock()
	defer o.mu.Unlock()
	o.current = w
	return w, nil
}

func (o *Outbox) readPage(ctx context.Context, w *window, n int) (list []*row, err error) {
	rows, _ := o.pool.Query(ctx, o.page, w.base, w.target, w.after, w.upTo, n) // whose error the rows have too
	list, err = pgx.CollectRows(rows, func(columns pgx.CollectableRow) (*row, error) {
		var b body
		r := &row{at: position{base: w.base, target: w.target}, count: 1}
		if err := columns.Scan(append([]any{&r.at.seq}, b.targets()...)...); err != nil {
			return nil, err
		}
		r.transaction = b.transaction()
		return r, nil
	})
	return list, kind.Wrap("read", err)
}

// add adds the rows read from a window and returns those that have not been acknowledged.
func (o *Outbox) add(w *window, rows []*row, last bool) (list []pipeline.Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range rows {
		w.after, r.owner = r.at.seq, o.owner
		o.pending = append(o.pending, r)
		if o.ahead[r.at.seq] {
			delete(o.ahead, r.at.seq)
			r.acked = true
			continue
		}
		list = append(list, r.delivery())
	}
	o.advance()
	if last {
		o.current = nil
		if len(o.pending) == 0 { // no row of the window is left to save its end with
			o.saved = position{base: w.base, target: w.target, seq: math.MaxInt64}
		}
	}
	return list
}

// advance moves the position to the last row before which all rows are acknowledged. The caller holds mu.
func (o *Outbox) advance() {
	for len(o.pending) > 0 && o.pending[0].acked {
		o.saved = o.pending[0].at
		o.pending = o.pending[1:]
	}
}

// Ack implements pipeline.Acker. It retries after a broken connection or a restart of the server until ctx ends. If another
// reader has taken over, all errors are [ErrLost], as is the error of a delivery that was given back.
func (o *Outbox) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	o.saving.Lock()
	defer o.saving.Unlock()
	defer o.settled.Send()
	owner, at, ahead := o.mark(done)
	err := ErrLost
	if owner != "" {
		err = retryTransient(ctx, func() error { return o.cursor.store(ctx, owner, at, ahead) })
	}
	if errors.Is(err, ErrLost) {
		o.lose(owner)
	}
	return verdicts("acknowledge", done, err, o.by(owner))
}

// mark marks deliveries as acknowledged, and returns the state to store.
func (o *Outbox) mark(done []pipeline.Delivery) (owner string, at position, ahead []int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range done {
		if r := rowOf(d, o.owner); r != nil {
			r.acked = true
		}
	}
	o.advance()
	ahead = []int64{}
	for _, r := range o.pending {
		if r.acked {
			ahead = append(ahead, r.at.seq)
		}
	}
	return o.owner, o.saved, slices.AppendSeq(ahead, maps.Keys(o.ahead))
}

// lose records that another reader has the cursor.
func (o *Outbox) lose(owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owner == owner {
		o.owner = ""
	}
}

// rowOf returns the row of a delivery by the cursor of that owner, or nil if the row was given back since. The caller holds mu.
func rowOf(d pipeline.Delivery, owner string) *row {
	if r, ok := d.Token.(*row); ok && r.owner == owner && r.count == d.Count {
		return r
	}
	return nil
}

// by returns a function that reports whether rowOf knows the row of a delivery. An acknowledged row is not given back any more.
func (o *Outbox) by(owner string) func(pipeline.Delivery) bool {
	return func(d pipeline.Delivery) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return rowOf(d, owner) != nil
	}
}

// Nack implements pipeline.Nacker: this Outbox delivers the row again after the delay. Later rows do not wait for it.
func (o *Outbox) Nack(_ context.Context, d pipeline.Delivery, delay time.Duration, _ error) error {
	defer o.settled.Send()
	o.mu.Lock()
	defer o.mu.Unlock()
	r := rowOf(d, o.owner)
	switch {
	case r == nil, o.owner == "":
		return ErrLost
	case r.acked:
		return nil
	}
	r.count++
	r.due = time.Now().Add(delay)
	at := sort.Search(len(o.back), func(i int) bool { return o.back[i].due.After(r.due) })
	o.back = slices.Insert(o.back, at, r)
	return nil
}

// Extend implements pipeline.Extender: it extends the lease of the cursor, and with it all deliveries.
func (o *Outbox) Extend(ctx context.Context, held []pipeline.Delivery) []error {
	o.mu.Lock()
	owner := o.owner
	o.mu.Unlock()
	err := ErrLost
	if owner != "" {
		err = o.renew(ctx, owner)
	}
	return verdicts("extend", held, err, o.by(owner))
}

// ExtendEvery implements pipeline.Extender: a third of the lease, so that two attempts may fail.
func (o *Outbox) ExtendEvery() time.Duration { return o.o.Lease / 3 }

// Close releases the cursor for the next reader and closes all connections.
func (o *Outbox) Close() error {
	o.mu.Lock()
	owner := o.owner
	o.owner = ""
	o.mu.Unlock()
	var err error
	if owner != "" {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
		defer cancel()
		err = kind.Wrap("release the cursor", o.cursor.free(ctx, owner))
	}
	o.pool.Close()
	return err
}

const releaseTimeout = 5 * time.Second
