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
