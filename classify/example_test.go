package classify_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// An operation marks its errors; wrapping does not hide the mark.
func Example() {
	charge := func() error {
		return classify.After(errors.New("too many requests"), 2*time.Second)
	}
	err := fmt.Errorf("charge card: %w", charge())
	mark, wait := classify.MarkOf(err)
	fmt.Println(err)
	fmt.Println(mark == classify.MarkAfter, wait)
	// Output:
	// charge card: too many requests
	// true 2s
}

// A classifier can inspect the operation's value.
func ExampleTyped() {
	type page struct{ complete bool }
	whole := classify.Typed(func(p page, err error) classify.Outcome {
		if err == nil && !p.complete {
			return classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError}
		}
		return classify.Default(p, err)
	})
	fmt.Println(whole.Classify(page{complete: true}, nil).Kind)
	fmt.Println(whole.Classify(page{}, nil).Kind)
	o := whole.Classify("text", nil)
	fmt.Println(o.Kind, o.Reason, o.Attributes["got_type"])
	// Output:
	// success
	// retryable
	// non_retryable classifier_type_mismatch string
}

var errQuota = errors.New("quota exceeded")

// Custom errors become a class that policies can list in retry_on and abort_on.
func ExampleCustom() {
	known := append(classify.Builtin(), classify.Custom("quota_exceeded", "", classify.Is(errQuota)))
	fmt.Println(known.Of(fmt.Errorf("upload: %w", errQuota))[0].Class)
	fmt.Println(known.Of(context.DeadlineExceeded)[0].Class)
	// Output:
	// quota_exceeded
	// timeout
}
