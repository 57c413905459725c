package pipeline

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/argument"
)

// Into makes a chain: what task makes of a transaction is dispatched to a sink, as the success step. When dispatching fails
// it alone is repeated, under that step's policy; the task's own success handler is called after it.
//
// The task's result is a *Transaction, a []*Transaction, dispatched in order and again from the first when one fails, or
// []byte, which becomes the payload of a transaction with the ID, the metadata and the correlation of the one that it was
// made from, and that one as its parent. nil dispatches nothing. IDs should be the same each time, so that a sink can drop
// what it has already. Transactions that the task made get the correlation, the parent and the trace that they lack from the
// one that they were made from: the trace is the present span's where an observer began one (observe.SpanOf), so that what
// comes after is part of the same trace.
//
// Into panics without a task or a sink.
func Into(task Task, sink Sink) Task {
	argument.Need(task != nil, "pipeline: Into: the task")
	argument.Need(sink != nil, "pipeline: Into: the sink")
	success, exception := handlersOf(task)
	f := Funcs{Process: task.Process, Success: func(ctx context.Context, t *Transaction, result any) error {
		if err := dispatch(ctx, sink, t, result); err != nil {
			return err
		}
		if success == nil {
			return nil
		}
		return success(ctx, t, result)
	}}
	f.Exception = exception
	return f.Task()
}

func dispatch(ctx context.Context, sink Sink, t *Transaction, result any) error {
	switch made := result.(type) {
	case nil:
		return nil
	case []byte:
		if made == nil {
			return nil
		}
		return sink.Dispatch(ctx, handOn(ctx, t, t.With(WithPayload(made), WithParent(t.id), WithAttempts(0))))
	case *Transaction:
		if made == nil {
			return nil
		}
		return sink.Dispatch(ctx, handOn(ctx, t, made))
	case []*Transaction:
		for _, one := range made {
			if err := dispatch(ctx, sink, t, one); err != nil {
				return err
			}
		}
		return nil
	}
	return unusable(result)
}

// unusable is a task's result that cannot be dispatched. Repeating cannot help.
func unusable(result any) error {
	return classify.Permanent(&ContractError{
		Part: "task", Problem: fmt.Sprintf("a result of type %T cannot be dispatched; return *Transaction, []byte or nil", result),
	})
}
