package pgpipe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// newOutbox creates the table of an outbox and returns its options and its quoted name.
func newOutbox(t testing.TB) (o pgpipe.Options, name string) {
	o, name = newTable(t, outboxColumns)
	o.Consumer = "c"
	exec(t, "CREATE INDEX ON "+name+" (tx)")
	return o, name
}

// writer is an application's connection.
type writer struct {
	t    testing.TB
	c    *pgx.Conn
	name string
}

func newWriter(t testing.TB, name string) *writer {
	t.Helper()
	c, err := pgx.Connect(context.Background(), server.ClockURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return &writer{t, c, name}
}

func (w *writer) do(sql string) {
	w.t.Helper()
	if _, err := w.c.Exec(context.Background(), sql); err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) insert(id string) {
	w.t.Helper()
	w.do("INSERT INTO " + w.name + " (id, payload) VALUES ('" + id + "', '')")
}

// TestL5ALateCommitIsNotSkipped checks that a row with a low number is read when its transaction commits after later rows were
// read, and that the open transaction does not delay others.
func TestL5ALateCommitIsNotSkipped(t *testing.T) {
	o, name := newOutbox(t)
	late, gone, quick := newWriter(t, name), newWriter(t, name), newWriter(t, name)
	late.do("BEGIN")
	late.insert("late")
	gone.do("BEGIN")
	gone.insert("rolled back")
	quick.insert("first")
	box := openOutbox(t, o)
	defer box.Close()
	step := func(want ...string) {
		t.Helper()
		got := fetch(t, box, 10, 0)
		if diff := cmp.Diff(want, idsOf(got)); diff != "" {
			t.Fatal(diff)
		}
		if errs := box.Ack(t.Context(), got); errs != nil {
			t.Fatal(errs)
		}
	}
	step("first")
	quick.insert("second")
	step("second")
	gone.do("ROLLBACK")
	step()
	late.insert("late too")
	late.do("COMMIT")
	quick.insert("third")
	step("late", "late too", "third")
	step()
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	box = openOutbox(t, o) // and nothing is delivered twice
	defer box.Close()
	step()
}

// TestL5CommitOrderHolds checks that each committed row is delivered exactly once, and that rows committed before another
// transaction wrote are delivered before its rows, across restarts of the reader and with pages of any size.
func TestL5CommitOrderHolds(t *testing.T) {
	o, name := newOutbox(t)
	writers := make([]*writer, 3)
	for i := range writers {
		writers[i] = newWriter(t, name)
	}
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		for _, w := range writers {
			w.do("ROLLBACK")
		}
		run++
		o.Consumer = fmt.Sprint(run)
		writers[0].do("TRUNCATE " + name)
		box := openOutbox(t, o)
		defer func() { _ = box.Close() }()
		open := make([][]string, len(writers)) // IDs of transactions that are not committed
		after := map[string][]string{}         // the IDs committed before an ID was written
		var committed, seen []string
		read := func(most int) bool {
			got := fetch(t, box, most, 0)
			if errs := box.Ack(t.Context(), got); errs != nil {
				rt.Fatal(errs)
			}
			seen = append(seen, idsOf(got)...)
			return len(got) > 0
		}
		n := 0
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				i := rapid.IntRange(0, len(writers)-1).Draw(rt, "writer")
				if open[i] == nil {
					writers[i].do("BEGIN")
				}
				n++
				id := fmt.Sprint(n)
				writers[i].insert(id)
				open[i], after[id] = append(open[i], id), slices.Clone(committed)
			},
			"commit": func(rt *rapid.T) {
				i := rapid.IntRange(0, len(writers)-1).Draw(rt, "writer")
				writers[i].do("COMMIT")
				committed, open[i] = append(committed, open[i]...), nil
			},
			"rollback": func(rt *rapid.T) {
				i := rapid.IntRange(0, len(writers)-1).Draw(rt, "writer")
				writers[i].do("ROLLBACK")
				open[i] = nil
			},
			"read": func(rt *rapid.T) { read(rapid.IntRange(1, 5).Draw(rt, "most")) },
			"reopen": func(*rapid.T) {
				if err := box.Close(); err != nil {
					rt.Fatal(err)
				}
				box = openOutbox(t, o)
			},
		})
		for read(100) {
		}
		if err := box.Close(); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(committed)), slices.Sorted(slices.Values(seen))); diff != "" {
			rt.Fatalf("committed and seen: %s", diff)
		}
		for place, id := range seen {
			for _, earlier := range after[id] {
				if at := slices.Index(seen, earlier); at > place {
					rt.Fatalf("%s was committed before %s was written, but delivered after it: %v", earlier, id, seen)
				}
			}
		}
	})
}

func TestL11RowsAcknowledgedAheadAreNotDeliveredAgain(t *testing.T) {
	o, name := newOutbox(t)
	put(t, name, makePlain("a", "b", "c", "d"))
	box := openOutbox(t, o)
	got := fetch(t, box, 3, 0)
	if errs := box.Ack(t.Context(), []pipeline.Delivery{got[1], got[2]}); errs != nil {
		t.Fatal(errs)
	}
	reopen := func() {
		t.Helper()
		if err := box.Close(); err != nil {
			t.Fatal(err)
		}
		box = openOutbox(t, o)
	}
	reopen()
	again := fetch(t, box, 1, 0)
	if diff := cmp.Diff([]string{"a"}, idsOf(again)); diff != "" {
		t.Fatal(diff)
	}
	if errs := box.Ack(t.Context(), again); errs != nil {
		t.Fatal(errs)
	}
	reopen() // rows acknowledged to earlier readers stay acknowledged
	if diff := cmp.Diff([]string{"d"}, idsOf(fetch(t, box, 10, 0))); diff != "" {
		t.Error(diff)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestL7OneReaderAtATime(t *testing.T) {
	o, name := newOutbox(t)
	put(t, name, makePlain("a", "b"))
	one, two := openOutbox(t, o), openOutbox(t, o)
	defer two.Close()
	held := fetch(t, one, 1, 0)
	if got := fetch(t, two, 1, 100*time.Millisecond); len(got) != 0 {
		t.Fatalf("two readers: %v", idsOf(got))
	}
	other := o
	other.Consumer = "another"
	three := openOutbox(t, other)
	defer three.Close()
	if got := fetch(t, three, 5, 0); len(got) != 2 {
		t.Errorf("another consumer got %v", idsOf(got))
	}
	advance(t, lease)
	got := fetch(t, two, 5, 10*time.Second)
	if diff := cmp.Diff([]string{"a", "b"}, idsOf(got)); diff != "" {
		t.Fatal(diff)
	}
	if errs := one.Extend(t.Context(), held); len(errs) != 1 || !errors.Is(errs[0], pgpipe.ErrLost) {
		t.Errorf("Extend: %v", errs)
	}
	if errs := one.Ack(t.Context(), held); len(errs) != 1 || !errors.Is(errs[0], pgpipe.ErrLost) {
		t.Errorf("Ack: %v", errs)
	}
	if err := one.Nack(t.Context(), held[0], 0, nil); !errors.Is(err, pgpipe.ErrLost) {
		t.Errorf("Nack: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if errs := two.Ack(t.Context(), got); errs != nil {
		t.Errorf("the reader's Ack: %v", errs)
	}
	source := "public" + strings.TrimPrefix(name, `"public"`)
	if n := count(t, "SELECT count(*) FROM tenet_cursors WHERE consumer = 'c' AND ahead = '{}' AND seq = 2 AND source = '"+source+"'"); n != 1 {
		t.Errorf("%d cursors are at the expected position", n)
	}
}

// TestL5ReadingAheadIsBounded checks that a fetch beyond the bound waits instead of reporting the end.
func TestL5ReadingAheadIsBounded(t *testing.T) {
	o, name := newOutbox(t)
	o.Lease = time.Minute
	exec(t, "INSERT INTO "+name+" (id, payload) SELECT n::text, '' FROM generate_series(1, 10500) AS n")
	box := openOutbox(t, o)
	defer box.Close()
	list := fetch(t, box, 4000, 0)
	for len(list) < 10000 {
		got := fetch(t, box, 4000, 0)
		if errs := box.Ack(t.Context(), got); errs != nil {
			t.Fatal(errs)
		}
		list = append(list, got...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := box.Fetch(ctx, pipeline.FetchRequest{Max: 100}); len(got) > 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%d and %v", len(got), err)
	}
	var acks sync.WaitGroup
	acks.Go(func() {
		if errs := box.Ack(context.Background(), list[:4000]); errs != nil {
			t.Error(errs)
		}
	})
	got := fetch(t, box, 1000, 0)
	acks.Wait()
	if len(got) != 500 || got[0].Transaction.ID() != "10001" {
		t.Errorf("%d delivered when there was room", len(got))
	}
}

func TestL5AnEngineReadsEverything(t *testing.T) {
	o, name := newOutbox(t)
	exec(t, "INSERT INTO "+name+" (id, payload) SELECT n::text, '' FROM generate_series(1, 30000) AS n")
	box := openOutbox(t, o)
	defer box.Close()
	var p policy.Consumer
	p.Loop.Batch.Size, p.Loop.Concurrency.Value = 12000, 8
	nothing := pipeline.Handle(func(context.Context, *pipeline.Transaction) error { return nil })
	summary, err := pipeline.NewConsumer(box, nothing, p).Run(t.Context())
	if err != nil || summary.Success != 30000 || summary.Unsettled != 0 {
		t.Errorf("%+v, %v", summary, err)
	}
}

func TestReturnedRowsKeepTheOrderOfDueTimes(t *testing.T) {
	o, name := newOutbox(t)
	put(t, name, makePlain("a", "b", "c"))
	box := openOutbox(t, o)
	defer box.Close()
	got := fetch(t, box, 3, 0)
	for i, delay := range []time.Duration{200 * time.Millisecond, 0, 100 * time.Millisecond} {
		if err := box.Nack(t.Context(), got[i], delay, nil); err != nil {
			t.Fatal(err)
		}
	}
	var again []pipeline.Delivery
	for len(again) < 3 {
		again = append(again, fetch(t, box, 1, time.Second)...)
	}
	if diff := cmp.Diff([]string{"b", "c", "a"}, idsOf(again)); diff != "" {
		t.Error(diff)
	}
	if again[0].Count != 2 {
		t.Errorf("count %d", again[0].Count)
	}
}

// TestL11ALateSettlementOfAnEarlierDeliveryIsRefused: the row is delivered again until its last delivery is acknowledged.
func TestL11ALateSettlementOfAnEarlierDeliveryIsRefused(t *testing.T) {
	o, name := newOutbox(t)
	put(t, name, makePlain("a"))
	box := openOutbox(t, o)
	first := fetch(t, box, 1, 0)
	if err := box.Nack(t.Context(), first[0], 0, nil); err != nil {
		t.Fatal(err)
	}
	late := func(when string) {
		t.Helper()
		if errs := box.Ack(t.Context(), first); len(errs) != 1 || !errors.Is(errs[0], pgpipe.ErrLost) {
			t.Errorf("%s: Ack: %v", when, errs)
		}
		if err := box.Nack(t.Context(), first[0], time.Hour, nil); !errors.Is(err, pgpipe.ErrLost) {
			t.Errorf("%s: Nack: %v", when, err)
		}
	}
	late("given back")
	second := fetch(t, box, 1, 10*time.Second)
	late("delivered again")
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	box = openOutbox(t, o)
	defer box.Close()
	if diff := cmp.Diff(idsOf(second), idsOf(fetch(t, box, 1, 0))); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
}

// TestReadRowsCanBeRemoved runs the statement of the documentation, which keeps the rows that a consumer has yet to read.
func TestReadRowsCanBeRemoved(t *testing.T) {
	o, name := newOutbox(t)
	source := "public" + strings.TrimPrefix(name, `"public"`)
	prune := "DELETE FROM " + name + " o WHERE o.tx < (SELECT pg_snapshot_xmin(base) FROM tenet_cursors WHERE source = '" +
		source + "' ORDER BY pg_snapshot_xmin(base) LIMIT 1)"
	box := openOutbox(t, o)
	defer box.Close()
	for _, id := range []string{"a", "b", "c"} {
		put(t, name, makePlain(id))
		if id == "c" {
			break
		}
		exec(t, prune)
		got := fetch(t, box, 1, 0)
		if diff := cmp.Diff([]string{id}, idsOf(got)); diff != "" {
			t.Fatal(diff)
		}
		if errs := box.Ack(t.Context(), got); errs != nil {
			t.Fatal(errs)
		}
	}
	exec(t, prune)
	if n := count(t, "SELECT count(*) FROM "+name); n != 2 { // a is removed; b is in the window of the cursor
		t.Errorf("%d rows remain", n)
	}
}
