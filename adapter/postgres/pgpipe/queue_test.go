package pgpipe_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
	"github.com/tenetdev/tenet/pipeline"
)

func makePlain(ids ...string) (list []*pipeline.Transaction) {
	for _, id := range ids {
		list = append(list, pipeline.NewTransaction(id, []byte("payload of "+id)))
	}
	return list
}

func fetch(t *testing.T, from pipeline.Source, most int, wait time.Duration) []pipeline.Delivery {
	t.Helper()
	got, err := from.Fetch(t.Context(), pipeline.FetchRequest{Max: most, Wait: wait})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func idsOf(list []pipeline.Delivery) (ids []string) {
	for _, d := range list {
		ids = append(ids, d.Transaction.ID())
	}
	return ids
}

func count(t *testing.T, sql string) (n int) {
	t.Helper()
	onConnection(t, func(ctx context.Context, c *pgx.Conn) error { return c.QueryRow(ctx, sql).Scan(&n) })
	return n
}

// TestL11AStaleHolderChangesNothing checks that a holder that lost its row to a later claim cannot ack, nack or extend it.
func TestL11AStaleHolderChangesNothing(t *testing.T) {
	o, name := newTable(t, queueColumns)
	put(t, name, makePlain("a"))
	one, two := openQueue(t, o), openQueue(t, o)
	defer one.Close()
	defer two.Close()
	stale := fetch(t, one, 1, 0)
	advance(t, lease)
	fresh := fetch(t, two, 1, 5*time.Second)
	if len(stale) != 1 || len(fresh) != 1 || fresh[0].Count != 2 {
		t.Fatalf("claimed %v, then %v", stale, fresh)
	}
	if errs := one.Ack(t.Context(), stale); len(errs) != 1 || !errors.Is(errs[0], pgpipe.ErrLost) {
		t.Errorf("Ack: %v", errs)
	}
	if err := one.Nack(t.Context(), stale[0], time.Hour, nil); !errors.Is(err, pgpipe.ErrLost) {
		t.Errorf("Nack: %v", err)
	}
	if errs := one.Extend(t.Context(), stale); len(errs) != 1 || !errors.Is(errs[0], pgpipe.ErrLost) {
		t.Errorf("Extend: %v", errs)
	}
	if errs := two.Extend(t.Context(), fresh); errs != nil {
		t.Errorf("the holder's Extend: %v", errs)
	}
	for range 2 { // a repetition: the answer to the first may have been lost
		if errs := two.Ack(t.Context(), fresh); errs != nil {
			t.Errorf("the holder's Ack: %v", errs)
		}
	}
	if n := count(t, "SELECT count(*) FROM "+name); n != 0 {
		t.Errorf("%d rows remain", n)
	}
}

// TestL11ALateSettlementOfARowThatWasGivenBackIsRefused: the row is delivered again.
func TestL11ALateSettlementOfARowThatWasGivenBackIsRefused(t *testing.T) {
	o, name := newTable(t, queueColumns)
	put(t, name, makePlain("a"))
	q := openQueue(t, o)
	defer q.Close()
	first := fetch(t, q, 1, 0)
	if err := q.Nack(t.Context(), first[0], 0, nil); err != nil {
		t.Fatal(err)
	}
	if errs := q.Ack(t.Context(), first); len(errs) != 1 || !errors.Is(errs[0], pgpipe.ErrLost) {
		t.Errorf("Ack: %v", errs)
	}
	if err := q.Nack(t.Context(), first[0], time.Hour, nil); !errors.Is(err, pgpipe.ErrLost) {
		t.Errorf("Nack: %v", err)
	}
	if errs := q.Extend(t.Context(), first); len(errs) != 1 || !errors.Is(errs[0], pgpipe.ErrLost) {
		t.Errorf("Extend: %v", errs)
	}
	second := fetch(t, q, 1, 0)
	if len(second) != 1 || second[0].Count != 2 {
		t.Errorf("delivered again: %v", second)
	}
	if errs := q.Ack(t.Context(), second); errs != nil {
		t.Errorf("the holder's Ack: %v", errs)
	}
	if errs := q.Ack(t.Context(), first); len(errs) != 1 || !errors.Is(errs[0], pgpipe.ErrLost) {
		t.Errorf("Ack of a row that is gone: %v", errs)
	}
}

func TestErrorsOfABatchBelongToTheirDeliveries(t *testing.T) {
	o, name := newTable(t, queueColumns)
	put(t, name, makePlain("a", "b", "c"))
	q := openQueue(t, o)
	defer q.Close()
	got := fetch(t, q, 3, 0)
	got[1].Token = "another source's"
	errs := q.Ack(t.Context(), got)
	if len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], pgpipe.ErrLost) || errs[2] != nil {
		t.Errorf("got %v", errs)
	}
}

func TestMarkedRowsStay(t *testing.T) {
	o, name := newTable(t, queueColumns+", done_at timestamptz")
	o.Done = "done_at"
	put(t, name, makePlain("a", "b"))
	q := openQueue(t, o)
	defer q.Close()
	got := fetch(t, q, 1, 0)
	if errs := q.Ack(t.Context(), got); errs != nil {
		t.Fatal(errs)
	}
	if err := q.Nack(t.Context(), got[0], 0, nil); !errors.Is(err, pgpipe.ErrLost) {
		t.Errorf("nack of a finished row: %v", err)
	}
	if n := count(t, "SELECT count(*) FROM "+name+" WHERE done_at IS NOT NULL"); n != 1 {
		t.Errorf("%d rows are done", n)
	}
}

// TestNoTransactionStaysOpenWhileATaskRuns checks transactions and locks.
func TestNoTransactionStaysOpenWhileATaskRuns(t *testing.T) {
	o, name := newTable(t, queueColumns)
	put(t, name, makePlain("a"))
	q := openQueue(t, o)
	defer q.Close()
	fetch(t, q, 1, 0)
	if n := count(t, "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client backend'"); n != 0 {
		t.Errorf("%d transactions are open", n)
	}
	exec(t, "SET lock_timeout = '1s'; SELECT FROM "+name+" FOR UPDATE NOWAIT")
}

// TestL7AClaimSkipsLockedRows checks that a claim skips locked rows.
func TestL7AClaimSkipsLockedRows(t *testing.T) {
	o, name := newTable(t, queueColumns)
	put(t, name, makePlain("a", "b"))
	q := openQueue(t, o)
	defer q.Close()
	w := newWriter(t, name)
	w.do("BEGIN")
	w.do("SELECT FROM " + name + " WHERE id = 'a' FOR UPDATE")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got, err := q.Fetch(ctx, pipeline.FetchRequest{Max: 2})
	if diff := cmp.Diff([]string{"b"}, idsOf(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	w.do("ROLLBACK")
}

func TestL5TheOldestRowsComeFirst(t *testing.T) {
	o, name := newTable(t, queueColumns)
	exec(t, "INSERT INTO "+name+" (id, payload, available_at) SELECT n::text, '', now() - n * interval '1 hour' FROM generate_series(-1, 5) AS n")
	q := openQueue(t, o)
	defer q.Close()
	for _, want := range [][]string{{"5", "4", "3"}, {"2", "1", "0"}, nil} {
		if diff := cmp.Diff(want, idsOf(fetch(t, q, 3, 0))); diff != "" {
			t.Error(diff)
		}
	}
}

// TestL5AcknowledgementsOutliveARestart checks that acknowledgements are retried while the server is down.
func TestL5AcknowledgementsOutliveARestart(t *testing.T) {
	o, name := newTable(t, queueColumns)
	o.Lease = time.Minute
	out, boxName := newOutbox(t)
	put(t, name, makePlain("a", "b"))
	put(t, boxName, makePlain("a"))
	q, box := openQueue(t, o), openOutbox(t, out)
	defer q.Close()
	defer box.Close()
	got, boxed := fetch(t, q, 2, 0), fetch(t, box, 1, 0)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	var acks sync.WaitGroup
	acks.Go(func() {
		if errs := q.Ack(t.Context(), got[:1]); errs != nil {
			t.Errorf("Ack: %v", errs)
		}
	})
	acks.Go(func() {
		if err := q.Nack(t.Context(), got[1], 0, nil); err != nil {
			t.Errorf("Nack: %v", err)
		}
	})
	acks.Go(func() {
		if errs := box.Ack(t.Context(), boxed); errs != nil {
			t.Errorf("the outbox's Ack: %v", errs)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if errs := q.Extend(ctx, got); len(errs) != 2 || errs[0] == nil || errs[1] == nil {
		t.Errorf("an Extend after its deadline: %v", errs)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	acks.Wait()
	if n := count(t, "SELECT count(*) FROM "+name+" WHERE available_at <= now()"); n != 1 {
		t.Errorf("%d rows are available", n)
	}
}

func TestTypesOfIDsAndPayloads(t *testing.T) {
	for _, test := range []struct{ idType, id, payloadType, payload, want string }{
		{"bigint", "42", "text", "grüße", "grüße"},
		{"uuid", "0198c2d4-0000-7000-8000-000000000001", "json", `{"b": 1,"a":2}`, `{"b": 1,"a":2}`},
		{"varchar(40)", "x'); --", "jsonb", `{"b":1,"a":2}`, `{"a": 2, "b": 1}`},
		{"numeric(10,2)", "1.50", "bytea", "\x00\xff", "\x00\xff"},
	} {
		t.Run(test.idType+" "+test.payloadType, func(t *testing.T) {
			o, name := newTable(t, "number "+test.idType+" PRIMARY KEY, data "+test.payloadType+`, "When" timestamptz NOT NULL DEFAULT now(), n smallint NOT NULL DEFAULT 0`)
			o = pgpipe.Options{Table: o.Table, ID: "number", Payload: "data", Available: "When", Deliveries: "n"}
			s, q := openSink(t, o), openQueue(t, o)
			defer s.Close()
			defer q.Close()
			if err := s.Dispatch(t.Context(), pipeline.NewTransaction(test.id, []byte(test.payload))); err != nil {
				t.Fatal(err)
			}
			got := fetch(t, q, 5, 0)
			if len(got) != 1 || got[0].Transaction.ID() != test.id || string(got[0].Transaction.Payload()) != test.want {
				t.Fatalf("got %v: %q", idsOf(got), got[0].Transaction.Payload())
			}
			if errs := q.Extend(t.Context(), got); errs != nil {
				t.Error(errs)
			}
			if errs := q.Ack(t.Context(), got); errs != nil || count(t, "SELECT count(*) FROM "+name) != 0 {
				t.Error(errs)
			}
		})
	}
}

func TestForeignMetadataIsAccepted(t *testing.T) {
	o, name := newTable(t, queueColumns)
	o.Correlation, o.Parent = "", ""
	exec(t, "INSERT INTO "+name+` (id, payload, meta) VALUES ('a', '', '{"n": 1, "o": {"x": null}, "s": "text"}'), ('b', '', '[1]'), ('c', '', NULL)`)
	q := openQueue(t, o)
	defer q.Close()
	var got []map[string]string
	for _, d := range fetch(t, q, 3, 0) {
		got = append(got, d.Transaction.AllMetadata())
	}
	want := []map[string]string{{"n": "1", "o": `{"x": null}`, "s": "text"}, nil, nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// planOf returns the server's plan of a statement.
func planOf(t *testing.T, sql string, args []any) string {
	t.Helper()
	var plan string
	onConnection(t, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, "EXPLAIN (FORMAT JSON) "+sql, args...).Scan(&plan)
	})
	if !json.Valid([]byte(plan)) {
		t.Fatalf("plan: %s", plan)
	}
	return plan
}

// node is a node of a plan.
type node struct {
	Type  string `json:"Node Type"`
	Cond  string `json:"Index Cond"`
	Plans []node
}

// whole reports whether a plan reads a whole table or index.
func (n node) whole() bool {
	return n.Type == "Seq Scan" || strings.HasPrefix(n.Type, "Index") && n.Cond == "" || slices.ContainsFunc(n.Plans, node.whole)
}

// TestCostDoesNotGrowWithTheBacklog checks that no statement of a batch reads or sorts the whole table, whatever the
// statistics are.
func TestCostDoesNotGrowWithTheBacklog(t *testing.T) {
	o, name := newTable(t, queueColumns)
	exec(t, "CREATE INDEX ON "+name+" (available_at, id)")
	exec(t, "ALTER TABLE "+name+" SET (autovacuum_enabled = off)")
	exec(t, "INSERT INTO "+name+" (id, payload) SELECT n::text, '' FROM generate_series(1, 50000) AS n")
	q := openQueue(t, o)
	defer q.Close()
	out, outName := newTable(t, outboxColumns)
	out.Consumer = "c"
	exec(t, "CREATE INDEX ON "+outName+" (tx)")
	exec(t, "ALTER TABLE "+outName+" SET (autovacuum_enabled = off)")
	exec(t, "INSERT INTO "+outName+" (id, payload) SELECT n::text, '' FROM generate_series(1, 50000) AS n")
	box := openOutbox(t, out)
	defer box.Close()
	var snapshot string
	onConnection(t, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&snapshot)
	})
	for _, statistics := range []string{
		"SELECT",
		"UPDATE pg_class SET reltuples = 0, relpages = 1 WHERE oid IN ('" + name + "'::regclass, '" + outName + "'::regclass)", // of empty tables
		"ANALYZE " + name + ", " + outName,
	} {
		exec(t, statistics)
		statements := q.Statements()
		for sql, args := range box.Statements(snapshot, 50000) {
			statements[sql] = args
		}
		for sql, args := range statements {
			plan := planOf(t, sql, args)
			var parsed []struct{ Plan node }
			if err := json.Unmarshal([]byte(plan), &parsed); err != nil || parsed[0].Plan.whole() {
				t.Errorf("after %q, this reads everything: %s\n%s", statistics, sql, plan)
			}
		}
	}
}
