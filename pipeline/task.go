package pipeline

import "context"

// Task is what a consumer does with a transaction. Its error decides what follows: business errors (classify.Business) and
// permanent ones are not repeated, everything else is, as far as the policy goes. A task that can does more:
// [SuccessHandler], [ExceptionHandler]. All methods are called concurrently, and a panic in one is an error.
//
// The task of a producer prepares what is dispatched: a result of type *Transaction is dispatched instead, []byte is
// dispatched as the payload, and nil dispatches the transaction itself.
type Task interface {
	Process(ctx context.Context, t *Transaction) (result any, err error)
}

// SuccessHandler is told of a processed transaction.
type SuccessHandler interface {
	HandleSuccess(ctx context.Context, t *Transaction, result any) error
}

// ExceptionHandler is told of a transaction that could not be processed or whose success handler failed; cause is a
// [*TransactionError]. When it returns nil the transaction counts as handled.
type ExceptionHandler interface {
	HandleException(ctx context.Context, t *Transaction, cause error) error
}

// TaskFunc adapts a function to a Task without handlers.
type TaskFunc func(ctx context.Context, t *Transaction) (any, error)

// Process calls f.
func (f TaskFunc) Process(ctx context.Context, t *Transaction) (any, error) { return f(ctx, t) }

// Funcs is a task made of functions. Success and Exception are optional, and count as absent while nil.
type Funcs struct {
	Process   func(ctx context.Context, t *Transaction) (result any, err error)
	Success   func(ctx context.Context, t *Transaction, result any) error
	Exception func(ctx context.Context, t *Transaction, cause error) error
}

// Task returns f as a Task. A nil Process does nothing and succeeds.
func (f Funcs) Task() Task { return funcsTask{f} }

type funcsTask struct{ f Funcs }

func (t funcsTask) Process(ctx context.Context, x *Transaction) (any, error) {
	if t.f.Process == nil {
		return nil, nil
	}
	return t.f.Process(ctx, x)
}

// handlersOf returns a task's handlers, nil where it has none.
func handlersOf(t Task) (success func(context.Context, *Transaction, any) error, exception func(context.Context, *Transaction, error) error) {
	if f, ok := t.(funcsTask); ok {
		return f.f.Success, f.f.Exception
	}
	if h, ok := t.(SuccessHandler); ok {
		success = h.HandleSuccess
	}
	if h, ok := t.(ExceptionHandler); ok {
		exception = h.HandleException
	}
	return success, exception
}
