package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
)

// everyRecord lists a store's jobs by ID.
func everyRecord(t *testing.T, store job.Admin) map[string]*job.Record {
	t.Helper()
	records := map[string]*job.Record{}
	for after := ""; ; {
		page, err := store.List(t.Context(), job.Filter{}, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return records
		}
		for _, r := range page {
			records[r.ID] = r
			after = r.ID
		}
	}
}

// TestJ9ManyJobsAreStoredLikeSingleOnes checks that many jobs in one call are stored like the same jobs one by one.
func TestJ9ManyJobsAreStoredLikeSingleOnes(t *testing.T) {
	many, _ := open(t)
	single, _ := open(t)
	list := inserts(1000)
	for i := range list {
		list[i].Payload = []byte(strings.Repeat("x", i*i%9000)) // rows end anywhere in a chunk
		list[i].Priority, list[i].MaxAttempts, list[i].Timeout = i%10, i%3, 1<<40
		if i%7 == 0 {
			list[i].Payload, list[i].Meta = nil, map[string]string{"tenant_id": "ä\"\\\n", "i": "1"}
		}
	}
	list[500].Payload = make([]byte, 1<<20)
	receipts, err := many.Jobs().Enqueue(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range receipts {
		if want := (job.Receipt{ID: list[i].ID, Durability: job.Fsynced}); r != want {
			t.Fatalf("receipt %d: %+v, want %+v", i, r, want)
		}
	}
	for _, in := range list[:200] {
		enqueue(t, single.Jobs(), in)
	}
	enqueue(t, single.Jobs(), list[500:501]...)
	later := insert() // a call with it is stored by the statement for jobs of all kinds
	later.RunAt = time.Now().Add(time.Hour)
	enqueue(t, single.Jobs(), append([]job.Insert{later}, list[200:290]...)...)
	got, want := everyRecord(t, many.Jobs()), everyRecord(t, single.Jobs())
	delete(want, later.ID)
	if len(got) != len(list) || len(want) != 291 {
		t.Fatalf("%d and %d jobs", len(got), len(want))
	}
	for id, w := range want {
		g := got[id]
		if !g.RunAt.Equal(g.CreatedAt) || !w.RunAt.Equal(w.CreatedAt) {
			t.Fatalf("run_at is not the time of the call: %+v, %+v", g, w)
		}
		w.CreatedAt, w.RunAt = g.CreatedAt, g.RunAt
		if diff := cmp.Diff(w, g, cmp.Comparer(func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) })); diff != "" {
			t.Fatalf("%s (-single +many):\n%s", id, diff)
		}
	}
}

// TestJ9ManyJobsAreStoredAllOrNone checks that all jobs are stored or none, wherever the server stops reading, and that the
// connection is usable afterwards.
func TestJ9ManyJobsAreStoredAllOrNone(t *testing.T) {
	_, schema := open(t)
	db, err := postgres.Open(t.Context(), url, postgres.Options{Schema: schema, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := db.Jobs()
	list := inserts(5000)
	taken := insert()
	enqueue(t, store, taken)
	for name, c := range map[string]struct {
		spoil func([]job.Insert)
		want  error
	}{
		"an existing ID, first": {func(l []job.Insert) { l[0] = taken }, job.ErrConflict},
		"an existing ID, last":  {func(l []job.Insert) { l[len(l)-1] = taken }, job.ErrConflict},
		"an ID twice":           {func(l []job.Insert) { l[10] = l[4000] }, job.ErrConflict},
		"NUL in a type":         {func(l []job.Insert) { l[2000].Type = "a\x00b" }, nil},
		"no UUID":               {func(l []job.Insert) { l[2000].ID = "x" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := append([]job.Insert(nil), list...)
			c.spoil(spoilt)
			_, err := store.Enqueue(t.Context(), spoilt)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if n := len(everyRecord(t, store)); n != 1 {
				t.Errorf("%d jobs are stored, want 1", n)
			}
		})
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Enqueue(cancelled, list); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	enqueue(t, store, list...)
	if n := len(everyRecord(t, store)); n != len(list)+1 {
		t.Errorf("%d jobs are stored, want %d", n, len(list)+1)
	}
}

// TestJ9TheSameJobsInOppositeOrderDoNotDeadlock: two calls that insert the same IDs wait for each other in the primary key. One of them
// stores the jobs, the other is told so; the server's abort of the deadlock reaches nobody.
func TestJ9TheSameJobsInOppositeOrderDoNotDeadlock(t *testing.T) {
	db, schema := open(t)
	stores := []*postgres.Jobs{db.Jobs(), openAt(t, url, schema).Jobs()}
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	for _, n := range []int{90, 400} { // by a statement, and copied
		for range rounds {
			list := inserts(n)
			back := slices.Clone(list)
			slices.Reverse(back)
			errs := make(chan error, 2)
			for i, jobs := range [][]job.Insert{list, back} {
				go func() {
					_, err := stores[i].Enqueue(t.Context(), jobs)
					errs <- err
				}()
			}
			a, b := <-errs, <-errs
			if a != nil {
				a, b = b, a
			}
			if a != nil || !errors.Is(b, job.ErrConflict) {
				t.Fatalf("%d jobs: %v and %v", n, a, b)
			}
		}
	}
}

// TestJ20AFlowIsStoredInStatementsOfABoundedSize would otherwise send more than PostgreSQL takes in a message: 10,000 payloads of up to 1 MiB.
func TestJ20AFlowIsStoredInStatementsOfABoundedSize(t *testing.T) {
	db, _ := open(t)
	for _, c := range []struct {
		jobs, size int
		want       []int
	}{{12_000, 0, []int{10_000, 2_000}}, {40, 1 << 20, []int{16, 16, 8}}} {
		var f job.Flow
		payload := make([]byte, c.size)
		for i := range c.jobs {
			f.Add(job.FlowJob{Request: job.Request{Type: "t", Payload: payload}, Node: fmt.Sprint(i)})
		}
		list, err := f.Inserts()
		if err != nil {
			t.Fatal(err)
		}
		if parts, err := db.Jobs().FlowParts(list); err != nil || !slices.Equal(parts, c.want) {
			t.Errorf("payloads of %d bytes: %v, %v", c.size, parts, err)
		}
	}
}

func TestJ9PlainJobsAreStoredInStatementsOfABoundedSize(t *testing.T) {
	db, _ := open(t)
	list, payload := inserts(3), make([]byte, 10<<20)
	for i := range list {
		list[i].Payload = payload
	}
	if parts, err := db.Jobs().PlainParts(list); err != nil || !slices.Equal(parts, []int{2, 1}) {
		t.Errorf("%v, %v", parts, err)
	}
}
