package job_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// Email is the payload of sendEmail.
type Email struct{ To string }

// sendEmail ties the name of a type of job, its payload and its defaults together.
var sendEmail = job.Define[Email]("email:send", job.WithQueue("mail"), job.WithAttempts(5))

// The example defines a type of job once and sets a retry policy; the job succeeds at its second attempt.
func Example() {
	db := memory.Open()
	w := job.NewWorker(db.Jobs(), job.WithQueues(map[string]int{"mail": 10}),
		job.WithRetryPolicy(job.NewExponentialBackoff(policy.Retry{InitialBackoff: 10 * time.Millisecond, MaxBackoff: time.Second})))

	ctx, stop := context.WithCancel(context.Background())
	sendEmail.Handle(w, func(_ context.Context, j job.Job[Email]) error {
		if j.Attempt == 1 {
			return errors.New("mail server busy")
		}
		fmt.Println("sent to", j.Payload.To, "at attempt", j.Attempt)
		stop()
		return nil
	})

	client := job.NewClient(db.Jobs())
	if _, err := sendEmail.Enqueue(ctx, client, Email{To: "ada@example.org"}); err != nil {
		fmt.Println(err)
	}
	if err := w.Run(ctx); err != nil { // finishes the running job, then returns
		fmt.Println(err)
	}
	// Output: sent to ada@example.org at attempt 2
}

// A handler of batches writes many rows at once. Each job has its own result.
func ExampleHandleBatch() {
	db := memory.Open()
	w := job.NewWorker(db.Jobs(), job.WithLogger(slog.New(slog.DiscardHandler)))
	ctx, stop := context.WithCancel(context.Background())
	job.HandleBatch(w, "row:insert", job.BatchOptions{Size: 50}, func(_ context.Context, rows []job.Job[int]) []error {
		defer stop()
		errs := make([]error, len(rows))
		for i, row := range rows {
			if row.Payload < 0 {
				errs[i] = job.Unrecoverable(fmt.Errorf("row %d is negative", row.Payload))
			}
		}
		fmt.Println(len(rows), "rows in one call")
		return errs
	})
	var requests []job.Request
	for _, n := range []int{1, -2, 3} {
		requests = append(requests, job.Request{Type: "row:insert", Payload: n})
	}
	if _, err := job.NewClient(db.Jobs()).EnqueueMany(ctx, requests); err != nil {
		fmt.Println(err)
	}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	stats, err := db.Jobs().Stats(context.Background())
	fmt.Println(stats["default"].Completed, "completed,", stats["default"].Dead, "dead", err)
	// Output:
	// 3 rows in one call
	// 2 completed, 1 dead <nil>
}

// A redrive runs dead jobs again: here one as a canary, which dies again and so saves the others.
func ExampleRedriveRunner() {
	ctx := context.Background()
	store := memory.Open().Jobs()
	client := job.NewClient(store)
	die := func() {
		claimed, err := store.Claim(ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "mail", Free: 10}}, Lease: time.Minute})
		if err != nil {
			fmt.Println(err)
		}
		for _, r := range claimed {
			store.Settle(ctx, []job.Settlement{{Ref: r.Ref(), Kind: job.KindDead, Error: "mail server busy"}})
		}
	}
	for range 3 {
		if _, err := client.Enqueue(ctx, job.Request{Type: "email:send", Queue: "mail"}); err != nil {
			fmt.Println(err)
		}
	}
	die()

	redrive, err := store.CreateRedrive(ctx, job.NewRedrive{
		ID: "01990000-0000-7000-8000-000000000001", Filter: job.Filter{Queue: "mail", ErrorContains: "busy"}, Actor: "ada",
		RedrivePlan: job.RedrivePlan{Rate: 50, Canary: 1, StopShare: 0.2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("selected:", redrive.Total)
	runner := job.NewRedriveRunner(store, job.RedriveRunnerOptions{Logger: slog.New(slog.DiscardHandler)})
	redrive, err = runner.Follow(ctx, redrive.ID, func(r job.Redrive) {
		if r.Pending() > 0 {
			die() // a worker would run the released jobs
		}
	})
	fmt.Println(redrive.State, "after", redrive.Released, "with", redrive.Left(), "left", err)
	// Output:
	// selected: 3
	// stopped after 1 with 2 left <nil>
}

// A program follows its own worker.
func ExampleWorker_Events() {
	db := memory.Open()
	w := job.NewWorker(db.Jobs())
	job.Handle(w, "email:send", func(context.Context, job.Job[Email]) error { return nil })
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	events := w.Events(ctx, 100)
	go func() {
		defer close(done)
		for e := range events {
			fmt.Println(e.Type, e.From, "->", e.To)
			if e.To.Finished() {
				stop()
			}
		}
	}()
	if _, err := job.NewClient(db.Jobs()).Enqueue(ctx, job.Request{Type: "email:send", Payload: Email{To: "ada@example.org"}}); err != nil {
		fmt.Println(err)
	}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	<-done
	// Output:
	// email:send ready -> running
	// email:send running -> completed
}

// At most two jobs of a tenant run at a time, whatever the number of workers.
func ExampleLimiter() {
	ctx := context.Background()
	store := memory.Open().Jobs()
	defer func() { _ = store.Close() }()
	var limiter job.Limiter = store
	perTenant := job.LimitName{Queue: "mail", Name: "per-tenant"}
	err := limiter.SetLimit(ctx, job.LimitSetting{LimitName: perTenant, Limit: &policy.JobLimit{Key: []string{"meta.tenant"}, Concurrency: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := job.NewClient(store)
	for range 3 {
		_, _ = client.Enqueue(ctx, job.Request{Type: "mail:send", Queue: "mail", Meta: map[string]string{"tenant": "acme"}})
	}
	waiting, _ := store.List(ctx, job.Filter{States: []job.State{job.Waiting}}, "", 10)
	fmt.Println(len(waiting), "waits for", waiting[0].WaitsFor)
	// Output: 1 waits for limit per-tenant of queue mail, meta.tenant:acme
}

func ExampleFlow() {
	var fetch, merge = job.Define[string]("fetch"), job.Define[string]("merge")
	var f job.Flow
	pages := f.Group(nil, fetch.Node("page-1", "https://example.com/1"), fetch.Node("page-2", "https://example.com/2"))
	f.Add(merge.Node("all", "sizes"), pages...)

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := memory.Open().Jobs()
	if _, err := job.NewClient(store).EnqueueFlow(ctx, &f); err != nil {
		fmt.Println(err)
		return
	}
	w := job.NewWorker(store)
	fetch.Handle(w, func(_ context.Context, j job.Job[string]) error { return job.SetOutput(j, len(j.Payload)) })
	merge.Handle(w, func(ctx context.Context, j job.Job[string]) error {
		total := 0
		for page, err := range j.Needs(ctx) {
			var size int
			if err := errors.Join(err, page.DecodeOutput(&size)); err != nil {
				return err
			}
			total += size
		}
		fmt.Println(j.Payload, total)
		stop()
		return nil
	})
	_ = w.Run(ctx)
	// Output: sizes 42
}
