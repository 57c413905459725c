//go:build unix

package crashtest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/internal/testpg"
	"github.com/tenetdev/tenet/job"
)

const (
	seed    = 20260302
	workers = 3
	faults  = 9 // every third is a freeze
	// runTimeout is much longer than a run.
	runTimeout  = 90 * time.Second
	maxFails    = 3
	maxPoisoned = 3
	// longEvery is the time between the starts of long jobs. Some run at each freeze, and elsewhere again when it ends.
	longEvery = 500 * time.Millisecond
)

// How many jobs of each type.
var jobs = map[string]int{"work": 900, "bound": 150, "long": 16, "fail": 40, "poison": 2}

// stored is a store and its administration.
type stored interface {
	job.Store
	job.Admin
	job.Limiter
	job.FlowStore
}

func TestJ1NothingIsLostOnSQLite(t *testing.T) { onSQLite(t, crash) }

func TestJ1NothingIsLostOnPostgreSQL(t *testing.T) { onPostgreSQL(t, crash) }

// onSQLite runs a test on a new file.
func onSQLite(t *testing.T, test func(*testing.T, stored, *crew)) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	test(t, db.Jobs(), &crew{t: t, url: "sqlite:" + path, folder: t.TempDir()})
}

// onPostgreSQL runs a test in a new schema.
func onPostgreSQL(t *testing.T, test func(*testing.T, stored, *crew)) {
	server, err := testpg.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	schema := fmt.Sprintf("%.40s_%d", strings.ToLower(t.Name()), os.Getpid())
	db, err := postgres.Open(t.Context(), server.URL(), postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Migrate(t.Context(), migrate.Up, false); err != nil {
		t.Fatal(err)
	}
	test(t, db.Jobs(), &crew{t: t, url: server.URL(), schema: schema, folder: t.TempDir()})
	if _, err := db.Migrate(t.Context(), migrate.Down, false); err != nil {
		t.Error(err)
	}
}

// crash runs jobs on workers that it kills and freezes, and audits the results.
func crash(t *testing.T, store stored, c *crew) {
	types := map[string]string{}
	limit(t, store)
	enqueue(t, store, types)
	for range workers {
		c.members = append(c.members, c.start())
	}
	kills, freezes := harass(t, c, store, types)
	c.dismiss()
	if kills == 0 || freezes == 0 || c.deaths == 0 {
		t.Errorf("%d kills, %d freezes, %d deaths by poison: a fault did not happen", kills, freezes, c.deaths)
	}
	a := audit{t: t, entries: map[string][]entry{}}
	for _, e := range readLedgers(t, c.folder) {
		a.entries[e.Job] = append(a.entries[e.Job], e)
	}
	for id, jobType := range types {
		a.job(store, id, jobType)
	}
	a.limits(store)
	if a.lost == 0 || a.refused == 0 || a.again == 0 {
		t.Errorf("%d lost leases, %d late results and extensions refused, %d claims after a lost lease: nothing was tested", a.lost, a.refused, a.again)
	}
	t.Logf("%d jobs: %d completed, %d dead; %d kills, %d freezes, %d deaths by poison; %d lost leases, %d late results and extensions refused",
		len(types), a.states[job.Completed], a.states[job.Dead], kills, freezes, c.deaths, a.lost, a.refused)
	if a.states[job.Completed] != jobs["work"]+jobs["bound"]+jobs["long"] || a.states[job.Dead] != jobs["fail"]+jobs["poison"] {
		t.Errorf("states %v of %v", a.states, jobs)
	}
}

// enqueue stores all jobs in a random order.
func enqueue(t *testing.T, store stored, types map[string]string) {
	t.Helper()
	var requests []job.Request
	for jobType, n := range jobs {
		limit := map[string]int{"fail": maxFails, "poison": maxPoisoned}[jobType]
		for i := range n {
			key := strconv.Itoa(len(requests) % keys)
			r := job.Request{Type: jobType, MaxAttempts: limit, Meta: map[string]string{"key": key}}
			if jobType == "long" {
				r.RunAt = time.Now().Add(time.Duration(i) * longEvery)
			}
			requests = append(requests, r)
		}
	}
	r := rand.New(rand.NewPCG(seed, 1))
	slices.SortStableFunc(requests, func(a, b job.Request) int { return cmp.Compare(a.Type, b.Type) })
	r.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	receipts, err := job.NewClient(store).EnqueueMany(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	for i, receipt := range receipts {
		types[receipt.ID] = requests[i].Type
	}
}

// harass kills and freezes workers at random moments until all jobs have finished.
func harass(t *testing.T, c *crew, store stored, types map[string]string) (kills, freezes int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	for end := time.Now().Add(runTimeout); ; {
		if finished(t, store) == len(types) {
			return kills, freezes
		}
		if time.Now().After(end) {
			stats, _ := store.Stats(t.Context())
			t.Fatalf("after %v: %+v", runTimeout, stats)
		}
		time.Sleep(100*time.Millisecond + time.Duration(r.Int64N(int64(500*time.Millisecond))))
		c.replenish()
		switch n := kills + freezes; {
		case n >= faults:
		case n%3 == 2:
			c.freeze(c.holder(types))
			freezes++
		default:
			c.kill(r.IntN(workers))
			kills++
		}
	}
}

func finished(t *testing.T, store stored) (n int) {
	t.Helper()
	stats, err := store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range stats {
		n += q.Completed + q.Dead
	}
	return n
}

// audit compares the ledgers with the store.
type audit struct {
	t                    *testing.T
	entries              map[string][]entry
	states               map[job.State]int
	lost, refused, again int
}

func (a *audit) job(store stored, id, jobType string) {
	if a.states == nil {
		a.states = map[job.State]int{}
	}
	r, history, err := store.Get(context.Background(), id)
	if err != nil {
		a.t.Errorf("%s was lost: %v", id, err)
		return
	}
	a.states[r.State]++
	ran, rows := 0, 0
	for _, h := range history {
		switch h.Outcome {
		case job.AttemptLost:
			a.lost++
			rows++
		case job.AttemptFailed, job.AttemptCompleted:
			rows++
		}
	}
	for _, e := range a.entries[id] {
		if e.Event == "ran" {
			ran++
		}
	}
	if ran == 0 || ran > rows {
		a.t.Errorf("%s %s ran %d times, its history has %d attempts", jobType, id, ran, rows)
	}
	switch jobType {
	case "fail", "poison":
		if r.State != job.Dead || rows != 3 || r.Failures != 3 {
			a.t.Errorf("%s %s: %s after %d attempts with %d rows, want dead after exactly 3", jobType, id, r.State, r.Failures, rows)
		}
	default:
		if r.State != job.Completed {
			a.t.Errorf("%s %s: %s, %s: %s", jobType, id, r.State, r.Reason, r.LastError)
		}
	}
	a.leases(id)
}

// stampSlack is how much earlier a claim may be stamped than it reads its rows: PostgreSQL stamps when the statement arrives.
const stampSlack = lease / 2

// leases checks that a job was never claimed under a live lease, and settled finally under its last token only.
func (a *audit) leases(id string) {
	type hold struct {
		fence   int64
		claimed time.Time
		until   time.Time
		given   bool // settled, or perhaps settled: the process died meanwhile
	}
	holds := map[int64]*hold{}
	final := map[int64]bool{}
	pending := map[int64]int{}
	for _, e := range a.entries[id] { // the lines of one lease are in one file, in order
		switch e.Event {
		case "claimed":
			if holds[e.Fence] != nil {
				a.t.Errorf("%s: token %d was issued twice", id, e.Fence)
			}
			holds[e.Fence] = &hold{fence: e.Fence, claimed: e.Claimed, until: e.Until}
		case "extended":
			if h := holds[e.Fence]; h != nil && e.Until.After(h.until) {
				h.until = e.Until
			}
		case "settling":
			pending[e.Fence]++
		case "settled":
			pending[e.Fence]--
			holds[e.Fence].given = true
			if e.Kind == job.KindComplete || e.Kind == job.KindDead {
				final[e.Fence] = true
			}
		case "refused":
			a.refused++
			if e.Kind != "" { // a result, not an extension
				pending[e.Fence]--
			}
		}
	}
	var before *hold
	order := make([]int64, 0, len(holds))
	for fence := range holds {
		order = append(order, fence)
	}
	slices.Sort(order)
	for fence := range final {
		if last := order[len(order)-1]; fence != last {
			a.t.Errorf("%s was settled finally under token %d, after token %d was issued", id, fence, last)
		}
	}
	for _, fence := range order {
		h := holds[fence]
		h.given = h.given || pending[fence] > 0
		if before != nil && !before.given {
			a.again++
			if h.claimed.Add(stampSlack).Before(before.until) {
				a.t.Errorf("%s: token %d was issued at %v, while the lease of token %d was live until %v", id, fence, h.claimed, before.fence, before.until)
			}
		}
		before = h
	}
}
