package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// The executor's decisions are recorded before they take effect. Programs use a durable sink: OpenFile, or the sink of a
// store.
func ExampleOpen() {
	ctx := context.Background()
	var sink audit.MemorySink
	log, err := audit.Open(ctx, &sink, audit.Options{
		Mode:   audit.FailClosed,
		Redact: audit.Redaction{Fields: []string{"exception_message"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	executor := retry.NewExecutor(retry.ExecutorOptions{Observer: log, Journal: log})

	failures := 1
	err = executor.Do(ctx, policy.ParseKey("payments.Charge"), func(context.Context) error {
		if failures--; failures >= 0 {
			return errors.New("card 4111-1111-1111-1111: connection reset")
		}
		return nil
	})
	fmt.Println("error:", err)
	if err := log.Close(ctx); err != nil {
		fmt.Println(err)
	}

	for _, e := range sink.Events() {
		fmt.Printf("%d %s %q %q\n", e.Seq, e.Type, e.Reason, e.ExceptionMessage)
	}
	// Output:
	// error: <nil>
	// 1 chain_opened "" ""
	// 2 policy_snapshot "" ""
	// 3 retry_attempt "retry" "[redacted]"
	// 4 call_succeeded "success" ""
}

// A log in a file continues where it ended, and is read in order across its rotated parts.
func ExampleOpenFile() {
	ctx := context.Background()
	dir, remove := temporary()
	defer remove()
	sink, err := audit.OpenFile(dir+"/audit.jsonl", audit.FileOptions{Sync: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sink.Close()
	log, err := audit.Open(ctx, sink, audit.Options{Mode: audit.Buffered})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := log.OperatorAction(ctx, audit.Operation{Actor: "ann", Action: "job_requeue", WorkID: "job-7"}); err != nil {
		fmt.Println(err)
	}
	if err := log.Close(ctx); err != nil {
		fmt.Println(err)
	}
	err = audit.NewFileSource(dir+"/audit.jsonl").Read(ctx, "", func(_ string, line []byte) error {
		e, err := audit.ParseLine(line)
		fmt.Printf("%s %q %q\n", e.Type, e.Action, e.WorkID)
		return err
	})
	fmt.Println(err)
	// Output:
	// chain_opened "" ""
	// operator_action "job_requeue" "job-7"
	// <nil>
}

func temporary() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "audit")
	if err != nil {
		panic(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}
