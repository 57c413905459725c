package job_test

import (
	"context"
	"errors"
	"fmt"
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
