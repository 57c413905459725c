package observe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// A timeline prints as a table.
func ExampleTimeline_String() {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	timeline := observe.Timeline{
		Key: policy.ParseKey("user-service.GetUser"), PolicyID: "rev-17", Start: begin, End: begin.Add(141 * time.Millisecond),
		Attempts: []observe.AttemptRecord{
			{
				Attempt: 1, Start: begin, End: begin.Add(96 * time.Millisecond), Err: errors.New("503 Service Unavailable"),
				Outcome: classify.Outcome{Kind: classify.Retryable, Reason: policy.ReasonHTTPStatus},
			},
			{
				Attempt: 2, RetryIndex: 1, Start: begin.Add(104 * time.Millisecond), End: begin.Add(141 * time.Millisecond),
				Outcome: classify.Outcome{Kind: classify.Success, Reason: policy.ReasonSuccess}, Backoff: 8 * time.Millisecond,
			},
		},
		Reason: policy.ReasonSuccess,
	}
	fmt.Print(timeline)
	// Output:
	// user-service.GetUser (policy rev-17) succeeded after 2 attempts in 141ms: success
	//   #  start   took  outcome    reason       backoff  error
	//   1  +0s     96ms  retryable  http_status  -        503 Service Unavailable
	//   2  +104ms  37ms  success    success      8ms
}

// Multi joins observers: the first logs events, the second counts failures.
func ExampleMulti() {
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	failed := 0
	count := observe.Func(func(_ context.Context, e *observe.Event) {
		if e.Type == observe.CallEnded && e.Timeline.Failed() {
			failed++
		}
	})
	observer := observe.Multi(observe.Slog(logger), count)

	// An executor calls the observer like this.
	observer.Observe(context.Background(), &observe.Event{
		Type:     observe.CallEnded,
		Work:     observe.Work{Key: policy.ParseKey("payments.Charge"), Surface: policy.SurfaceCall},
		Timeline: &observe.Timeline{Reason: policy.ReasonDeadlineExceeded, FinalError: errors.New("timed out")},
	})
	fmt.Println("failed:", failed)
	// Output:
	// level=WARN msg="work failed" key=payments.Charge surface=call reason=deadline_exceeded attempts=0 duration=0s error="timed out"
	// failed: 1
}
