package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"maragu.dev/goqite/jobs"

	"github.com/tenetdev/tenet/bench/jobs/riversqlite/measure"
	"github.com/tenetdev/tenet/job"
)

// opener makes a system on an empty store.
type opener func(ctx context.Context, env *environment) (measure.System, error)

// Scenario is a task that several systems do.
type Scenario struct {
	Name  string
	Note  string
	Task  measure.Task
	Once  bool // in the first round only, because it takes long
	Turns int  // number of measurements of each case in a round; 0 means one
	Cases []Case
}

// Case is a system in a scenario.
type Case struct {
	Peer string
	Jobs int // instead of the task's, where the system is slow
	Note string
	Run  runner
}

// runner measures a system.
type runner func(ctx context.Context, env *environment, t measure.Task) (Outcome, error)

// Outcome is the result of a case in one round.
type Outcome struct {
	measure.Numbers
	Claims     []time.Duration // medians, by backlog
	Dead, Size int64           // beside a long-open transaction: dead rows and size of the database in bytes
}

// The peers that bars refer to.
const (
	peerTenet       = "Tenet"
	peerTenetSame   = "Tenet, 100 slots"
	peerTenetApart  = "Tenet, from another process"
	peerTenetByKey  = "Tenet, a limit by key"
	peerTenetFlows  = "Tenet, a flow with a fan-in"
	peerTenetFanOut = "Tenet, a flow that fans out and in"
	peerRiver       = "River"
	peerRiverSQLite = "River SQLite"
	peerGoqite      = "goqite"
)

// The names that bars refer to.
const (
	pgInsertOne  = "PostgreSQL: insert, 1 goroutine"
	pgInsertMany = "PostgreSQL: insert, 16 goroutines"
	pgBulk       = "PostgreSQL: bulk insert"
	pgBurn       = "PostgreSQL: burn-down, tuned"
	pgBurnPlain  = "PostgreSQL: burn-down, defaults"
	pgLatency    = "PostgreSQL: idle latency"
	pgClaim      = "PostgreSQL: claim cost"
	pgBlocked    = "PostgreSQL: claim beside blocked jobs"
	pgLong       = "PostgreSQL: long-open transaction"

	liteInsertOne  = "SQLite: insert, 1 goroutine"
	liteInsertMany = "SQLite: insert, 16 goroutines"
	liteBulk       = "SQLite: bulk insert"
	liteBurn       = "SQLite: burn-down, tuned"
	liteBurnPlain  = "SQLite: burn-down, defaults"
	liteLatency    = "SQLite: idle latency"
	liteClaim      = "SQLite: claim cost"
	liteBlocked    = "SQLite: claim beside blocked jobs"
)

const (
	// tunedSlots gave Tenet's best burn-downs; the other systems' settings are documented with them.
	tunedSlots = 1000
	manyConns  = 20 // more than goroutines that insert

	// single inserts are timed insertTurns times in a round, for insertFor each
	insertFor, insertTurns = 700 * time.Millisecond, 3
	bulkSize               = 10_000
	mostLongRiver          = 1_000_000
	// samples in each of turns turns; they are taken together.
	samples, turns = 300, 5
)

// scenarios lists everything that is measured, in the order of the report.
func scenarios(o settings) []Scenario {
	insert := func(goroutines int) measure.Task {
		return measure.Task{Kind: measure.Insert, Goroutines: goroutines, For: insertFor}
	}
	bulk := measure.Task{Kind: measure.Bulk, Jobs: bulkSize, For: time.Second}
	burn := func(jobs int) measure.Task { return measure.Task{Kind: measure.Burn, Jobs: max(jobs, 1000)} }
	latency := measure.Task{Kind: measure.Latency, Jobs: samples}

	tuned := tenetPostgres(tunedSlots, manyConns)
	riverBest := riverPostgres(riverTuned(), 0)
	onPostgres := []Case{{Peer: peerTenet, Run: within(tuned)}, {Peer: peerRiver, Run: within(riverPostgres(riverTuned(), manyConns))}}
	onSQLite := []Case{
		{Peer: peerTenet, Run: within(tenetSQLite(tunedSlots))},
		{Peer: peerRiverSQLite, Run: remote(true)},
		{Peer: peerGoqite, Run: within(goqiteSQLite(goqiteTuned()))},
	}
	return []Scenario{
		{Name: pgInsertOne, Turns: insertTurns, Task: insert(1), Cases: onPostgres, Note: "One job in each call."},
		{Name: pgInsertMany, Turns: insertTurns, Task: insert(16), Cases: onPostgres, Note: "One job in each call, 20 connections."},
		{
			Name: pgBulk, Task: bulk, Note: "10,000 jobs in each call; River by InsertManyFast. Flows have 100,000 jobs.",
			Cases: append(slices.Clip(onPostgres), Case{Peer: peerTenetFanOut, Run: within(inFlows(tuned, 1, fanOut)), Jobs: job.MaxFlowJobs}),
		},
		{
			Name: pgBurn, Task: burn(o.jobs),
			Note: "Jobs that do nothing are there; the clock runs from the start of the worker until it has recorded all of them and stopped. Tenet with 1,000 slots; River with 2,000, FetchCooldown and FetchPollInterval at 1 ms, their minimum, and no job timeout. It exposes no setting of its completer, which takes 5,000 at a time. Once more with at most 10 jobs of each of 1,000 keys at a time, and as one flow, at most 100,000 jobs: the last job needs all others, which in the second case all need the first.",
			Cases: []Case{
				{Peer: peerTenet, Run: within(tuned)},
				{Peer: peerTenetByKey, Run: within(byKey(tuned, 1000)), Jobs: max(o.jobs/2, 1000)},
				{Peer: peerTenetFlows, Run: within(inFlows(tuned, job.MaxFlowJobs, fanIn)), Jobs: max(o.jobs/2, 1000)},
				{Peer: peerTenetFanOut, Run: within(inFlows(tuned, job.MaxFlowJobs, fanOut)), Jobs: max(o.jobs/2, 1000)},
				{Peer: peerRiver, Run: within(riverBest)},
			},
		},
		{
			Name: pgBurnPlain, Task: burn(o.jobs / 40),
			Note: "Nothing is set. River has no default for its slots and gets 100, as in its documentation; Tenet's default is 10, and 100 once more for comparison.",
			Cases: []Case{
				{Peer: peerTenet, Run: within(tenetPostgres(0, 0))},
				{Peer: peerTenetSame, Run: within(tenetPostgres(100, 0)), Jobs: max(o.jobs/4, 1000)},
				{Peer: peerRiver, Run: within(riverPostgres(riverDefaults(), 0))},
			},
		},
		{
			Name: pgLatency, Task: latency, Once: true, Turns: turns,
			Note: "From the call that enqueues to the handler, one job at a time, 10 to 20 ms apart; tuned as above, and River's client that inserts notifies once in 1 ms instead of 100. Tenet wakes workers of the same process itself; once more with jobs from another process, of which the server notifies the worker.",
			Cases: []Case{
				{Peer: peerTenet, Run: within(tuned)},
				{Peer: peerTenetApart, Run: within(apart(tuned))},
				{Peer: peerRiver, Run: within(prompt(riverBest))},
			},
		},
		{
			Name: pgClaim, Once: true,
			Note:  "Median of 60 claims of 10 jobs by the store alone, from three databases in turn; River's by its driver.",
			Cases: []Case{{Peer: peerTenet, Run: claiming(tuned, backlogs(o), measure.Fill)}, {Peer: peerRiver, Run: claiming(riverBest, backlogs(o), measure.Fill)}},
		},
		{
			Name: pgBlocked, Once: true,
			Note:  "One job of a key at a time: the given number of jobs waits behind a tenth as many that run, each of another key. Claims of 10 jobs of other keys, as above.",
			Cases: []Case{{Peer: peerTenet, Run: claiming(tuned, blocked(o), block)}},
		},
		{
			Name: pgLong, Task: measure.Task{Kind: measure.Burn, Jobs: o.long}, Once: true,
			Note: "A transaction that was opened before the first job stays open, so that nothing that is deleted or replaced can be cleaned up. Jobs are enqueued 10,000 at a time while the worker, tuned as above, runs them. Measured afterwards: dead rows and the size of all tables and indexes. River runs at most a million: each job takes it longer than the one before, and after two million it does 2,000 a second.",
			Cases: []Case{
				{Peer: peerTenet, Run: besideTransaction(tuned)},
				{Peer: peerRiver, Run: besideTransaction(riverBest), Jobs: min(o.long, mostLongRiver)},
			},
		},
		{Name: liteInsertOne, Turns: insertTurns, Task: insert(1), Cases: onSQLite, Note: "One job in each call. Here and below Tenet commits with synchronous=FULL and the others with NORMAL."},
		{Name: liteInsertMany, Turns: insertTurns, Task: insert(16), Cases: onSQLite, Note: "One job in each call."},
		{Name: liteBulk, Task: bulk, Cases: onSQLite, Note: "10,000 jobs in each call; River by InsertManyFast, goqite one by one in a transaction."},
		{
			Name: liteBurn, Task: burn(o.jobs / 2),
			Note: "As on PostgreSQL. Tenet with 1,000 slots; River with 1,000 and 1 ms for FetchCooldown and FetchPollInterval; goqite's runner with 10 and a PollInterval of 1 µs.",
			Cases: []Case{
				onSQLite[0],
				{Peer: peerRiverSQLite, Run: remote(true), Jobs: max(o.jobs/10, 1000)},
				{Peer: peerGoqite, Run: onSQLite[2].Run, Jobs: max(o.jobs/10, 1000)},
			},
		},
		{
			Name: liteBurnPlain, Task: burn(o.jobs / 20), Note: "Nothing is set, but River's slots: 100.",
			Cases: []Case{
				{Peer: peerTenet, Run: within(tenetSQLite(0))},
				{Peer: peerRiverSQLite, Run: remote(false), Jobs: max(o.jobs/80, 1000)},
				{Peer: peerGoqite, Run: within(goqiteSQLite(jobs.NewRunnerOpts{})), Jobs: 30},
			},
		},
		{Name: liteLatency, Task: latency, Once: true, Cases: onSQLite, Note: "As on PostgreSQL. River polls every millisecond, goqite all the time; Tenet is woken."},
		{
			Name: liteClaim, Once: true, Note: "As on PostgreSQL.",
			Cases: []Case{{Peer: peerTenet, Run: claiming(tenetSQLite(0), backlogs(o), measure.Fill)}},
		},
		{
			Name: liteBlocked, Once: true, Note: "As on PostgreSQL.",
			Cases: []Case{{Peer: peerTenet, Run: claiming(tenetSQLite(0), blocked(o), block)}},
		},
	}
}

// backlogs are the sizes that claims are measured at.
func backlogs(o settings) []int { return []int{1000, o.backlog / 10, o.backlog} }

// blocked are the numbers of blocked jobs that claims are measured beside.
func blocked(o settings) []int { return []int{0, o.backlog / 10, o.backlog} }

// selected returns the scenarios whose name contains the given text.
func selected(o settings) []Scenario {
	return slices.DeleteFunc(scenarios(o), func(s Scenario) bool { return !strings.Contains(s.Name, o.only) })
}
