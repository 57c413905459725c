//go:build unix

package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// envMortal makes a worker die while it settles jobs.
const envMortal = "CRASHTEST_MORTAL"

// mortal kills its process in some calls of Settle: before, during or after the transaction.
type mortal struct{ booked }

func (m mortal) Settle(ctx context.Context, list []job.Settlement) []error {
	const odds, most = 15, 3 * time.Millisecond
	if rand.IntN(odds) == 0 {
		time.AfterFunc(rand.N(most), func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		time.Sleep(rand.N(most)) // the kill may come first
	}
	return m.booked.Settle(ctx, list)
}

func TestJ20EachNeedFreesItsDependentsOnceOnSQLite(t *testing.T) {
	t.Parallel()
	onSQLite(t, crashFlows)
}

func TestJ20EachNeedFreesItsDependentsOnceOnPostgreSQL(t *testing.T) {
	t.Parallel()
	onPostgreSQL(t, crashFlows)
}

// crashFlow is a flow whose "all" needs each of width jobs, which need the first. "no" ends dead.
//
//	first ─┬─► 0 … width-1 ─► all ─► last
//	       └─► no ─┬─► run, with all (on_failure: run)
//	               ├─► cancelled ─► below
//	               └─► held (on_failure: hold)
func crashFlow(width int) *job.Flow {
	node := func(name, jobType string, on job.OnFailure, needs ...string) job.FlowJob {
		return job.FlowJob{Node: name, Needs: needs, OnFailure: on, Request: job.Request{Type: jobType}}
	}
	f := &job.Flow{}
	f.Add(node("first", "work", ""))
	var middle []string
	for i := range width {
		middle = append(middle, f.Add(node(fmt.Sprint(i), "work", "", "first")))
	}
	no := node("no", "fail", "", "first")
	no.MaxAttempts = 1
	f.Add(no)
	f.Add(node("all", "work", "", middle...))
	f.Add(node("last", "work", "", "all"))
	f.Add(node("run", "work", job.FailureRun, "no", "all"))
	f.Add(node("cancelled", "work", "", "no"))
	f.Add(node("below", "work", "", "cancelled"))
	f.Add(node("held", "work", job.FailureHold, "no"))
	return f
}

// crashFlows runs flows on workers that die and are killed, until enough have and leases were lost, and audits the results.
func crashFlows(t *testing.T, store stored, c *crew) {
	flows, width, deaths := 2, 30, 4
	if !testing.Short() {
		flows, width, deaths = 8, 250, 25
	}
	client, ids := job.NewClient(store), []string(nil)
	enqueue := func() {
		receipt, err := client.EnqueueFlow(t.Context(), crashFlow(width))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, receipt.ID)
	}
	for range flows {
		enqueue()
	}
	c.mortal = true
	for range workers {
		c.members = append(c.members, c.start())
	}
	size, kills := len(crashFlow(width).Jobs), 0
	for end := time.Now().Add(2 * runTimeout); ; {
		if ended(t, store) == len(ids)*(size-1) { // one job of each flow is held
			if c.deaths+kills >= deaths && lostLeases(t, store, ids) > 0 {
				break
			}
			enqueue()
			deaths = max(deaths, c.deaths+kills+1)
		}
		if time.Now().After(end) {
			stats, _ := store.Stats(t.Context())
			t.Fatalf("after %v, %d kills and %d deaths: %+v", 2*runTimeout, kills, c.deaths, stats)
		}
		time.Sleep(20*time.Millisecond + rand.N(80*time.Millisecond))
		if c.deaths+kills >= deaths {
			c.mortal = false
		} else if rand.IntN(3) == 0 {
			c.kill(rand.IntN(workers))
			kills++
		}
		c.replenish()
	}
	c.dismiss()
	a := audit{t: t, entries: map[string][]entry{}, states: map[job.State]int{}}
	for _, e := range readLedgers(t, c.folder) {
		a.entries[e.Job] = append(a.entries[e.Job], e)
	}
	for _, id := range ids {
		a.flow(store, id)
	}
	t.Logf("%d jobs: %v; %d kills, %d deaths while settling, %d lost leases", len(ids)*size, a.states, kills, c.deaths, a.lost)
}

// lostLeases counts the attempts of flows whose leases were lost.
func lostLeases(t *testing.T, store stored, flows []string) (n int) {
	t.Helper()
	for _, flow := range flows {
		nodes, err := store.FlowNodes(t.Context(), job.NodeQuery{Flow: flow, Limit: job.MaxFlowJobs})
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range nodes {
			_, history, err := store.Get(t.Context(), node.JobID)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range history {
				if h.Outcome == job.AttemptLost {
					n++
				}
			}
		}
	}
	return n
}

func ended(t *testing.T, store stored) (n int) {
	t.Helper()
	stats, err := store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range stats {
		n += q.Completed + q.Dead + q.Cancelled
	}
	return n
}

// flow checks that each job of a flow ended as its needs say, ran after them, and ran again only after a lost lease.
func (a *audit) flow(store stored, id string) {
	ctx := context.Background()
	nodes, err := store.FlowNodes(ctx, job.NodeQuery{Flow: id, Limit: job.MaxFlowJobs})
	if err != nil {
		a.t.Fatal(err)
	}
	want := map[string]job.State{"no": job.Dead, "cancelled": job.Cancelled, "below": job.Cancelled, "held": job.Waiting}
	finished := make([]time.Time, len(nodes)+1) // by position
	for _, n := range nodes {
		r, history, err := store.Get(ctx, n.JobID)
		if err != nil {
			a.t.Errorf("J20: %s was lost: %v", n.Node, err)
			continue
		}
		a.states[r.State]++
		state, unmet := want[n.Node], 0
		switch state {
		case "":
			state = job.Completed
		case job.Waiting, job.Cancelled:
			unmet = 1
		}
		if n.State != state || n.Unmet != unmet {
			a.t.Errorf("J20: %s is %s with %d unmet needs, want %s with %d", n.Node, n.State, n.Unmet, state, unmet)
		}
		lost, final, claims := 0, 0, 0 // a token is the number of claims
		for _, e := range a.entries[n.JobID] {
			claims = max(claims, int(e.Fence))
		}
		for _, h := range history {
			switch h.Outcome {
			case job.AttemptLost:
				lost++
			case job.AttemptCompleted, job.AttemptFailed:
				final++
			}
		}
		a.lost += lost
		if n.Node == "no" && lost == 1 { // its only attempt, which perhaps nobody wrote down
			lost, final, claims = 0, 1, 1
		}
		if ran := unmet == 0; ran != (final == 1) || claims != lost+final {
			a.t.Errorf("J20: %s was claimed %d times, lost %d times and settled %d times", n.Node, claims, lost, final)
		}
		for _, need := range n.Needs { // stored earlier
			if claims > 0 && (finished[need].IsZero() || r.StartedAt.Before(finished[need])) {
				a.t.Errorf("J20: %s started at %v, its need %d finished at %v", n.Node, r.StartedAt, need, finished[need])
			}
		}
		finished[n.Position] = r.FinishedAt
		a.leases(n.JobID)
	}
}
