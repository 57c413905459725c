package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// Error is the error of a call that failed. Match the operation's last error and the cause with errors.Is and errors.As,
// never with ==. errors.Is also finds context.Canceled and context.DeadlineExceeded if that is the reason.
type Error struct {
	Key       policy.Key
	Category  string // the category's code, for example RETRY_NATS_PUBLISH, or ""
	Operation string // the name given by WithOperation, or ""
	PolicyID  string
	Attempts  int // attempts that were started; for stored work, those of earlier turns included
	Reason    policy.Reason
	// Outcome is that of the attempt or hedged group judged last, or an abort if none was judged.
	Outcome classify.Outcome
	Last    error // the operation's last error; nil if it never ran
	// RetryAfter is how long it takes until the breaker, the budget or the rate limit that refused the call's last attempt may
	// allow one; 0 if that is not known, or if nothing refused it.
	RetryAfter time.Duration
	Cause      error // what ended the call from outside: a context, a budget, a journal; nil otherwise
}

// Errors that end up as the Cause of an [Error].
var (
	ErrNoPolicy       = errors.New("tenet: no policy")
	ErrNoClassifier   = errors.New("tenet: classifier not registered")
	ErrBudgetDenied   = errors.New("tenet: denied by budget")
	ErrCircuitOpen    = errors.New("tenet: circuit open")
	ErrLimited        = errors.New("tenet: limit reached") // of concurrency or rate; the Reason says which
	ErrOverallTimeout = fmt.Errorf("tenet: overall timeout: %w", context.DeadlineExceeded)
)

// Error implements error: the key, the reason, the number of attempts and what happened last.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("tenet: ")
	if name := e.Key.String(); name != "" {
		b.WriteString(name + ": ")
	}
	if e.Operation != "" {
		b.WriteString(e.Operation + ": ")
	}
	fmt.Fprintf(&b, "%s after %d attempt", e.Reason, e.Attempts)
	if e.Attempts != 1 {
		b.WriteByte('s')
	}
	if e.Last != nil {
		fmt.Fprintf(&b, ": %v", e.Last)
	}
	if e.Cause != nil && !errors.Is(e.Last, e.Cause) {
		fmt.Fprintf(&b, " (%v)", e.Cause)
	}
	return b.String()
}

// Unwrap returns the last error and the cause.
func (e *Error) Unwrap() []error {
	list := make([]error, 0, 2)
	if e.Last != nil {
		list = append(list, e.Last)
	}
	if e.Cause != nil {
		list = append(list, e.Cause)
	}
	return list
}

// Is matches context.Canceled and context.DeadlineExceeded by the reason, also if the context ended with another cause.
func (e *Error) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.Reason == policy.ReasonCanceled
	case context.DeadlineExceeded:
		return e.Reason == policy.ReasonDeadlineExceeded || e.Reason == policy.ReasonOverallTimeout
	}
	return false
}

// PanicError is a recovered panic: of a hedged attempt (raised again on the caller's goroutine), of a pipeline's source, provider or
// function of WithEnded or, with RecoverPanics, of a provider, classifier, budget, trigger, journal or Wait.
type PanicError struct {
	Part  string // operation, provider, classifier, budget, trigger, journal, wait or, in pipelines, source or ended
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error implements error.
func (e *PanicError) Error() string {
	return fmt.Sprintf("tenet: panic in %s: %v\n%s", e.Part, e.Value, e.Stack)
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
