package retry_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	key     = policy.ParseKey("user-service.GetUser")
	errDown = errors.New("down")
	bg      = context.Background()
)

// exact is a policy with delays of 10, 20, 40 … ms and no jitter.
func exact(attempts int) policy.Policy {
	return policy.Policy{ID: "rev-1", Retry: policy.Retry{
		MaxAttempts: attempts, InitialBackoff: 10 * time.Millisecond, MaxBackoff: time.Second, Jitter: policy.JitterNone,
	}}
}

// provide makes a provider of one policy for every key.
func provide(t *testing.T, p policy.Policy) policy.Provider {
	t.Helper()
	compiled, err := policy.Compile(p, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	return policy.NewSet(policy.SetConfig{Calls: compiled})
}

func executor(t *testing.T, p policy.Policy, change ...func(*retry.ExecutorOptions)) *retry.Executor {
	t.Helper()
	options := retry.ExecutorOptions{Provider: provide(t, p)}
	for _, c := range change {
		c(&options)
	}
	return retry.NewExecutor(options)
}

// script returns an operation that returns the errors one after another and repeats the last one, and its call count.
func script(errs ...error) (retry.Operation, *int) {
	calls := 0
	return func(context.Context) error {
		err := errs[min(calls, len(errs)-1)]
		calls++
		return err
	}, &calls
}

// log records the events that it observes.
type log struct {
	mu     sync.Mutex
	events []*observe.Event
}

func (l *log) Observe(_ context.Context, e *observe.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *log) of(t observe.EventType) []*observe.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*observe.Event
	for _, e := range l.events {
		if e.Type == t {
			list = append(list, e)
		}
	}
	return list
}

func (l *log) reports(r policy.Reason) int {
	n := 0
	for _, e := range l.of(observe.Reported) {
		if e.Report.Reason == r {
			n++
		}
	}
	return n
}

// failure unwraps a call's error, which must be a *retry.Error with the given reason.
func failure(t *testing.T, err error, reason policy.Reason) *retry.Error {
	t.Helper()
	e, ok := errors.AsType[*retry.Error](err)
	if !ok {
		t.Fatalf("error is %T (%v), want *retry.Error", err, err)
	}
	if e.Reason != reason {
		t.Fatalf("reason is %s, want %s (%v)", e.Reason, reason, err)
	}
	return e
}
