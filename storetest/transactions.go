package storetest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// Database is a database whose stores take part in its users' transactions.
type Database struct {
	Jobs interface {
		job.Store
		job.Admin
		job.Notifier
	}
	Records idempotency.Store
	// Begin begins a transaction.
	Begin func() (Transaction, error)
	// Effects counts the committed calls of Transaction.Effect.
	Effects func() (int, error)
}

// Transaction is a user's transaction and the stores' methods that join it.
type Transaction struct {
	EnqueueTx     func(...job.Request) ([]job.Receipt, error)
	EnqueueFlowTx func(*job.Flow) (job.FlowReceipt, error) // of a store with flows
	CompleteTx    func(job.Lease) error
	BeginTx       func(idempotency.BeginRequest) (idempotency.Begun, error)
	SettleTx      func(idempotency.Claim, idempotency.Settlement) error
	// Effect inserts a row into a table of the user's own.
	Effect func() error
	// A case ends with Rollback, also after Commit; its error is then ignored.
	Commit, Rollback func() error
}

// Transactions checks the methods of a database's stores that join a user's transaction. open returns a fresh, empty
// database, which it closes in the test's cleanup.
func Transactions(t *testing.T, open func(t *testing.T) Database) {
	for _, c := range []struct {
		name string
		run  func(*transactions)
	}{
		{"J9/jobs of a transaction exist when it commits", (*transactions).commitJobs},
		{"J9/jobs of a transaction are gone when it rolls back", (*transactions).rollBackJobs},
		{"J9/one call enqueues a defined job in a transaction", (*transactions).enqueueDefined},
		{"J9/a transaction refuses text with NUL or invalid UTF-8", (*transactions).refuseText},
		{"J11/jobs of a transaction are announced when it commits", (*transactions).announce},
		{"J26/a handler completes its job in its own transaction", (*transactions).completeInHandler},
		{"J26/a lost lease completes nothing", (*transactions).completeWithoutLease},
		{"J20/a flow of a transaction exists when it commits", (*transactions).commitFlow},
		{"J20/a need completes in its handler's transaction", (*transactions).completeNeed},
		{"I5/effect and record commit together", (*transactions).commitRecord},
		{"I5/a fenced settlement leaves the transaction usable", (*transactions).fence},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(&transactions{suite: suite{T: t}, Database: open(t)}) })
	}
}

// transactions is a database under test.
type transactions struct {
	suite
	Database
}

// start begins a transaction, and fails the case, from any goroutine, if it cannot.
func (s *transactions) start() (Transaction, error) {
	s.Helper()
	tx, err := s.Begin()
	s.report("Begin", err)
	if err == nil {
		s.Cleanup(func() { _ = tx.Rollback() }) // of a case that fails: SetIndex waits for the end of open transactions
	}
	return tx, err
}

func (s *transactions) begin() Transaction {
	s.Helper()
	tx, err := s.start()
	s.ok(err)
	return tx
}

// stored checks that the store has n jobs.
func (s *transactions) stored(n int) {
	s.Helper()
	list, err := s.Jobs.List(s.Context(), job.Filter{}, "", 100)
	s.ok(err)
	same(s, "jobs in the store", len(list), n)
}

// absent checks that an ID has no record.
func (s *transactions) absent(id idempotency.ID) {
	s.Helper()
	if r, err := s.Records.Get(s.Context(), id); !errors.Is(err, idempotency.ErrNotFound) {
		s.Fatalf("%+v, %v, want %v", r, err, idempotency.ErrNotFound)
	}
}

// effects checks the number of committed effects.
func (s *transactions) effects(want int) {
	s.Helper()
	if n, err := s.Effects(); err != nil || n != want {
		s.Fatalf("%d effects, %v, want %d", n, err, want)
	}
}

func (s *transactions) commitJobs() {
	odd := job.Request{
		Type: `"{,}\`, Queue: `q "\' ü`, Payload: []byte("\x00\\\"{},NULL\xff"), UniqueKey: `k{,"\`,
		Meta: map[string]string{`"\`: "a,b", "NULL": ""}, Timeout: 3*time.Second + 1, MaxAttempts: 7, Priority: 9,
		RunAt: time.Now().Add(time.Hour),
	}
	prepared, err := job.Inserts([]job.Request{odd})
	s.ok(err)
	tx := s.begin()
	receipts, err := tx.EnqueueTx(odd, odd, job.Request{Type: "t"})
	if err != nil || len(receipts) != 3 {
		s.Fatalf("%+v, %v", receipts, err)
	}
	want := []job.Receipt{
		{ID: receipts[0].ID, Durability: job.InTransaction}, {ID: receipts[0].ID, Existed: true}, {ID: receipts[2].ID, Durability: job.InTransaction},
	}
	noDiff(s, "receipts", cmp.Diff(want, receipts))
	_, err = tx.EnqueueTx(job.Request{Type: "t"}, job.Request{Type: "t"}, job.Request{Type: "t"})
	s.ok(err)
	s.stored(0)
	s.ok(tx.Commit())
	s.stored(5)
	got, _, err := s.Jobs.Get(s.Context(), receipts[0].ID)
	s.ok(err)
	in := prepared[0]
	in.ID = got.ID
	noDiff(s, "stored", cmp.Diff(job.New(in, got.CreatedAt), got, cmpopts.EquateEmpty()))
}

func (s *transactions) refuseText() {
	tx := s.begin()
	for _, text := range []string{"a\x00b", "a\xff"} {
		for field, r := range map[string]job.Request{
			"unique_key": {Type: "t", UniqueKey: text},
			"meta":       {Type: "t", Meta: map[string]string{"k": text}},
		} {
			_, err := tx.EnqueueTx(r)
			if e, ok := errors.AsType[*job.RequestError](err); !ok || e.Field != field {
				s.Errorf("%s %q: %v", field, text, err)
			}
		}
	}
	_, err := tx.EnqueueTx(job.Request{Type: "t"}) // the transaction is still usable
	s.ok(err, tx.Commit())
	s.stored(1)
}

func (s *transactions) rollBackJobs() {
	keyed := job.Request{Type: "t", UniqueKey: "k"}
	tx := s.begin()
	_, err := tx.EnqueueTx(keyed, job.Request{Type: "t"})
	s.ok(err, tx.Rollback())
	s.stored(0)
	if receipt, err := job.NewClient(s.Jobs).Enqueue(s.Context(), keyed); err != nil || receipt.Existed {
		s.Fatalf("the key is still taken: %+v, %v", receipt, err)
	}
}

func (s *transactions) enqueueDefined() {
	pay := job.Define[int]("invoice:pay", job.WithQueue("billing"), job.WithAttempts(3))
	tx := s.begin()
	if _, err := tx.EnqueueTx(job.Request{}); err == nil {
		s.Error("a request without a type was accepted")
	}
	receipts, err := tx.EnqueueTx(pay.Request(7, job.WithPriority(2)), pay.Request(8, job.WithQueue("late")))
	s.ok(err, tx.Commit())
	for i, want := range []job.Record{
		{Type: "invoice:pay", Queue: "billing", Payload: []byte("7"), MaxAttempts: 3, Priority: 2},
		{Type: "invoice:pay", Queue: "late", Payload: []byte("8"), MaxAttempts: 3},
	} {
		r, _, err := s.Jobs.Get(s.Context(), receipts[i].ID)
		s.ok(err)
		got := job.Record{Type: r.Type, Queue: r.Queue, Payload: r.Payload, MaxAttempts: r.MaxAttempts, Priority: r.Priority}
		noDiff(s, "stored", cmp.Diff(want, got))
	}
}

func (s *transactions) announce() {
	signals, err := s.Jobs.Notify(s.Context())
	s.ok(err)
	tx := s.begin()
	_, err = tx.EnqueueTx(job.Request{Type: "t", Queue: queue})
	s.ok(err, tx.Commit())
	for found := false; !found; { // a signal may come without a job
		if _, open := <-signals; !open {
			s.Fatal("the channel was closed")
		}
		found = len(s.claim(queue)) == 1
	}
}

func (s *transactions) claim(queue string) []*job.Record {
	s.Helper()
	list, err := s.Jobs.Claim(s.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: queue, Free: 1}}, Lease: time.Minute})
	s.ok(err)
	return list
}

// errWithdrawn is a handler's failure.
var errWithdrawn = errors.New("withdrawn")

// work runs a worker for the type t until a handler calls stop. It returns the worker's warnings. Handlers have goroutines of their own, so
// they report errors.
func (s *transactions) work(handler func(j job.Job[int], stop func()) error) string {
	s.Helper()
	var log bytes.Buffer
	w := job.NewWorker(s.Jobs, job.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))),
		job.WithRetryPolicy(job.NewExponentialBackoff(policy.Retry{
			MaxAttempts: 3, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond, BackoffMultiplier: 1, Jitter: policy.JitterNone,
		})))
	ctx, stop := context.WithTimeout(s.Context(), time.Minute)
	defer stop()
	job.Handle(w, "t", func(_ context.Context, j job.Job[int]) error { return handler(j, stop) })
	s.ok(w.Run(ctx))
	return log.String()
}

// handled runs a job in a worker until its handler calls stop. It returns the job's record and history and the worker's
// warnings.
func (s *transactions) handled(handler func(j job.Job[int], stop func()) error) (r *job.Record, history []job.Attempt, warnings string) {
	s.Helper()
	receipt, err := job.NewClient(s.Jobs).Enqueue(s.Context(), job.Request{Type: "t", Payload: 7})
	s.ok(err)
	warnings = s.work(handler)
	r, history, err = s.Jobs.Get(s.Context(), receipt.ID)
	s.ok(err)
	return r, history, warnings
}

func (s *transactions) completeInHandler() {
	effects := 0
	for _, c := range []struct {
		name       string
		rolledBack int   // attempts that roll back and fail before one commits
		after      error // what the handler returns after the commit
		attempts   []job.AttemptOutcome
		warned     bool
	}{
		{"committed", 0, nil, []job.AttemptOutcome{job.AttemptCompleted}, false},
		{"rolled back", 2, nil, []job.AttemptOutcome{job.AttemptFailed, job.AttemptFailed, job.AttemptCompleted}, false},
		{"failed after the commit", 0, errWithdrawn, []job.AttemptOutcome{job.AttemptCompleted}, true},
	} {
		r, history, warnings := s.handled(func(j job.Job[int], stop func()) error {
			tx, err := s.start()
			if err != nil {
				stop()
				return err
			}
			s.report("CompleteTx", errors.Join(tx.Effect(), tx.CompleteTx(j.Lease())))
			if j.Attempt <= c.rolledBack {
				return errors.Join(errWithdrawn, tx.Rollback())
			}
			stop()
			s.report("Commit", tx.Commit())
			return c.after
		})
		outcomes := lists.Map(history, func(a job.Attempt) job.AttemptOutcome { return a.Outcome })
		if r.State != job.Completed || r.Failures != c.rolledBack || !slices.Equal(outcomes, c.attempts) {
			s.Errorf("%s: %s after %d failures, %v", c.name, r.State, r.Failures, outcomes)
		}
		if last := history[len(history)-1].Reason; r.Reason != policy.ReasonSuccess || last != policy.ReasonSuccess {
			s.Errorf("%s: reason %q, in the history %q", c.name, r.Reason, last)
		}
		if got := strings.Contains(warnings, "a late result was refused"); got != c.warned {
			s.Errorf("%s: the worker warns: %q", c.name, warnings)
		}
		effects++
		s.effects(effects)
	}
}

func (s *transactions) completeWithoutLease() {
	var lease job.Lease
	r, _, _ := s.handled(func(j job.Job[int], stop func()) error {
		lease = j.Lease()
		stop()
		return job.Snooze(0) // gives the lease back
	})
	complete := func(lease job.Lease, want error) {
		s.Helper()
		tx := s.begin()
		s.must(tx.CompleteTx(lease), want)
		s.ok(tx.Rollback())
	}
	complete(lease, job.ErrNotRunning)
	same(s, "jobs claimed", len(s.claim(r.Queue)), 1)
	complete(lease, job.ErrFenced)
	complete(job.Lease{}, job.ErrNotFound)
	complete(job.Job[int]{ID: r.ID}.Lease(), job.ErrNotFound)
}

// oddRequest is a request to begin whose texts need care in SQL.
func oddRequest(owner string) idempotency.BeginRequest {
	return idempotency.BeginRequest{
		ID: idempotency.ID{Tenant: "a\x00\xff", Operation: `"{}\`, Key: "k"}, Fingerprint: "f\x00", Owner: owner, Lease: time.Minute, PolicyHash: "p\xff",
	}
}

func oddCompletion() idempotency.Settlement {
	return idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: []byte("\x00\xff{},NULL\\"), TTL: time.Hour}
}

func (s *transactions) commitRecord() {
	id := oddRequest("o").ID
	run := func() Transaction {
		s.Helper()
		tx := s.begin()
		begun, err := tx.BeginTx(oddRequest("o"))
		if r := begun.Record; err != nil || begun.Verdict != idempotency.Run || r.Fence <= 0 || !r.Lease.Equal(r.Created.Add(time.Minute)) {
			s.Fatalf("%+v, %v", begun, err)
		}
		claim := begun.Record.Claim()
		s.ok(tx.Effect(), tx.SettleTx(claim, oddCompletion()), tx.SettleTx(claim, oddCompletion()))
		s.absent(id) // the transaction is open
		return tx
	}
	s.ok(run().Rollback())
	s.absent(id)
	s.effects(0)
	s.ok(run().Commit())
	s.effects(1)
	stored, err := s.Records.Get(s.Context(), id)
	if err != nil || stored.State != idempotency.Completed || !bytes.Equal(stored.Result, oddCompletion().Result) {
		s.Fatalf("%+v, %v", stored, err)
	}
	tx := s.begin()
	again, err := tx.BeginTx(oddRequest("another"))
	s.ok(err)
	noDiff(s, "begun again", cmp.Diff(idempotency.Begun{Verdict: idempotency.Replay, Record: stored}, again))
	s.ok(tx.Rollback())
}

// fence checks that a refused settlement does not end the transaction: the caller decides whether to roll back.
func (s *transactions) fence() {
	first, err := s.Records.Begin(s.Context(), oddRequest("o"))
	s.ok(err)
	tx := s.begin()
	stale := first.Record.Claim()
	stale.Fence++
	s.must(tx.SettleTx(stale, oddCompletion()), idempotency.ErrFenced)
	if b, err := tx.BeginTx(oddRequest("another")); err != nil || b.Verdict != idempotency.Busy || b.RetryAfter <= 0 {
		s.Fatalf("%+v, %v", b, err)
	}
	s.ok(tx.SettleTx(first.Record.Claim(), idempotency.Settlement{State: idempotency.Released, TTL: time.Hour}))
	second, err := tx.BeginTx(oddRequest("another"))
	if err != nil || second.Verdict != idempotency.Run || second.Record.Fence != first.Record.Fence+1 || second.Record.Attempts != 2 {
		s.Fatalf("%+v, %v", second, err)
	}
	failure := idempotency.Settlement{State: idempotency.Failed, Failure: &idempotency.Failure{Type: "t\x00", Message: "\xff"}, TTL: time.Hour}
	s.ok(tx.SettleTx(second.Record.Claim(), failure), tx.Effect(), tx.Commit())
	s.effects(1)
	got, err := s.Records.Get(s.Context(), first.Record.ID)
	s.ok(err)
	noDiff(s, "failure", cmp.Diff(failure.Failure, got.Failure))
}
