package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/internal/testpg"
	"github.com/tenetdev/tenet/job"
)

// TestS8TenMillionJobs measures searches and statistics on 10 million jobs. It logs the times, which depend on the machine,
// and fails where they are far from the bars: 300 ms for a search by an indexed field at the 95th percentile, 5 ms for statistics.
func TestS8TenMillionJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	const jobs = 10_000_000
	own, err := testpg.Start(testpg.NoSync)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	ctx := t.Context()
	db, err := postgres.Open(ctx, own.URL(), postgres.Options{Schema: "large"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	pool, err := pgxpool.New(ctx, own.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	start := time.Now()
	took := func(what string) {
		t.Logf("%s: %v", what, time.Since(start).Round(time.Millisecond))
		start = time.Now()
	}
	if _, err := db.Migrate(ctx, postgres.Up, false); err != nil {
		t.Fatal(err)
	}
	const id = `('01990000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
	for _, text := range []string{
		`SET synchronous_commit = off`,
		fmt.Sprintf(`INSERT INTO large.job (id, timeout, max_attempts, type, queue, priority, payload, meta)
SELECT %s, 0, 0, 't', 'q' || n %% 10, 0, convert_to('{"order":{"id":' || n / 10 || '}}', 'UTF8'), NULL FROM generate_series(1, %d) n`, id, jobs),
		fmt.Sprintf(`INSERT INTO large.done (id, run_at, fence, attempts, refusals, priority, queue, finished_at, state)
SELECT %s, now(), 1, 0, 0, 0, 'q' || n %% 10, now(), 'completed' FROM generate_series(1, %d) n`, id, jobs),
		`INSERT INTO large.total (queue, completed) SELECT queue, count(*) FROM large.done GROUP BY queue`,
		`VACUUM ANALYZE large.job`, `VACUUM ANALYZE large.done`,
	} {
		if _, err := pool.Exec(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	took("loaded")
	store := db.Jobs()
	search := func(text string) job.Found {
		f, err := job.ParseFilter(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		found, err := store.Search(ctx, job.Search{Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	found := search("payload.order.id:1")
	took(fmt.Sprintf("a search without an index, down to %s", found.Next))
	if found.Next == "" || !slices.Equal(found.Unindexed, []string{"payload.order.id"}) {
		t.Errorf("a search without an index ended: %q, %v", found.Next, found.Unindexed)
	}
	if err := store.SetIndex(ctx, "payload.order.id", true); err != nil {
		t.Fatal(err)
	}
	took("indexed")
	p95 := func(n int, f func(i int)) time.Duration {
		times := make([]time.Duration, n)
		for i := range times {
			began := time.Now()
			f(i)
			times[i] = time.Since(began)
		}
		slices.Sort(times)
		return times[n*95/100]
	}
	searching := p95(200, func(i int) {
		if found := search(fmt.Sprint("payload.order.id:", 1+i*4999)); len(found.Jobs) != 10 || found.Next != "" {
			t.Errorf("found %d jobs, next %q", len(found.Jobs), found.Next)
		}
	})
	counting := p95(200, func(int) {
		if stats, err := store.Stats(ctx); err != nil || len(stats) != 10 || stats["q1"].Completed != jobs/10 {
			t.Errorf("%v, %v", stats, err)
		}
	})
	t.Logf("p95 of 200: search %v, statistics %v", searching, counting)
	if searching > 300*time.Millisecond || counting > 50*time.Millisecond {
		t.Errorf("search %v, statistics %v", searching, counting)
	}
}
