package job_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

// A typed handler, a retry policy by value, and a job that succeeds at its second attempt.
func Example() {
	type email struct {
		To string
	}
	db := memory.Open()
	w := job.NewWorker(db.Jobs(), job.WithRetryPolicy(
		job.NewExponentialBackoffPolicy(10*time.Millisecond, time.Second, 2, 0.2, job.WithMaxAttempts(5))))

	ctx, stop := context.WithCancel(context.Background())
	job.Handle(w, "email:send", func(_ context.Context, j job.Job[email]) error {
		if j.Attempt == 1 {
			return errors.New("mail server busy")
		}
		fmt.Println("sent to", j.Payload.To, "at attempt", j.Attempt)
		stop()
		return nil
	})

	client := job.NewClient(db.Jobs())
	if _, err := client.Enqueue(ctx, job.Request{Type: "email:send", Payload: email{To: "ada@example.org"}}); err != nil {
		fmt.Println(err)
	}
	if err := w.Run(ctx); err != nil { // finishes the running job, then returns
		fmt.Println(err)
	}
	// Output: sent to ada@example.org at attempt 2
}
