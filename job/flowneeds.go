package job

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/tenetdev/tenet/internal/secrets"
	"github.com/tenetdev/tenet/policy"
)

// Needed says which dependents of a job still have to learn of its end:
//
//	NeededByAll ──fails──► NeededAfterFailure     those that run after a failure have learnt of it
//	NeededByAll, NeededAfterFailure ──completes──► NeededByNone
//
// A job that is retried after its completion meets no need a second time.
type Needed int

// The values of Needed.
const (
	NotInFlow Needed = iota
	NeededByNone
	NeededByAll
	NeededAfterFailure
)

// Ended returns the value after the end of the job in a state.
func (n Needed) Ended(s State) Needed {
	switch {
	case n <= NeededByNone || !s.Finished():
		return n
	case s == Completed:
		return NeededByNone
	}
	return NeededAfterFailure
}

// Meets reports whether the end of the job in a state, "" for a deletion, meets the need of a dependent.
func (n Needed) Meets(s State, f OnFailure) bool {
	if s == Completed {
		return n == NeededByAll || n == NeededAfterFailure && f != FailureRun
	}
	return n == NeededByAll && f == FailureRun
}

// Cancels reports whether the end of the job in a state, "" for a deletion, cancels a waiting dependent.
func (n Needed) Cancels(s State, f OnFailure) bool {
	return n > NeededByNone && s != Completed && (f == FailureCancel || f == FailureHold && s == "")
}

// Release ends the wait of a waiting job at now: it is ready, or scheduled if its run_at is later.
func (r *Record) Release(now time.Time) {
	r.State, r.WaitsFor = Ready, ""
	if now = Stamp(now); r.RunAt.After(now) {
		r.State = Scheduled
	} else {
		r.RunAt = now
	}
}

// Hold makes a job that an operator has retried wait for its needs.
func (r *Record) Hold() { r.State, r.WaitsFor = Waiting, WaitsForNeeds }

// CancelUnmet cancels a waiting job at now because one of its needs failed.
func (r *Record) CancelUnmet(now time.Time) {
	r.State, r.FinishedAt, r.Reason, r.WaitsFor = Cancelled, Stamp(now), policy.ReasonNeedFailed, ""
}

// SetOutput sets the output of a job as JSON, for [NeedOutput] to read. See [Job.SetOutput].
func SetOutput[O, T any](j Job[T], output O) error {
	raw, err := json.Marshal(output)
	if err != nil {
		return fmt.Errorf("job: output: cannot be encoded as JSON: %w", err)
	}
	j.SetOutput(raw)
	return nil
}

// NeedOutput returns the output of the need with a name, decoded from JSON, in the handler of a job of a flow. It returns an error that
// wraps ErrNotFound if the job has no such need, if that was deleted, or outside a worker. A need that failed or set no output
// has the zero output.
func NeedOutput[O, T any](ctx context.Context, j Job[T], node string) (output O, err error) {
	for need, err := range j.needs(ctx, node) {
		if err == nil {
			err = need.DecodeOutput(&output)
		}
		return output, err
	}
	return output, fmt.Errorf("job: need %q: %w", node, ErrNotFound)
}

// DecodeOutput decodes an output that [SetOutput] has stored into a pointer. Without an output it changes nothing.
func (n FlowNode) DecodeOutput(into any) error {
	if len(n.Output) == 0 {
		return nil
	}
	if err := json.Unmarshal(n.Output, into); err != nil {
		return fmt.Errorf("job: the output of %q does not fit: %w", n.Node, secrets.DecodeError(err))
	}
	return nil
}

// Needs goes through the needs of a job of a flow, with their states and outputs, in its handler. It reads them from the store in
// pages. Outside a worker, as in tests of a handler, there are none.
func (j Job[T]) Needs(ctx context.Context) iter.Seq2[FlowNode, error] { return j.needs(ctx, "") }

func (j Job[T]) needs(ctx context.Context, node string) iter.Seq2[FlowNode, error] {
	return func(yield func(FlowNode, error) bool) {
		if j.flows == nil {
			return
		}
		const page = 200
		for after, full := 0, true; full; {
			list, err := j.flows.FlowNodes(ctx, NodeQuery{NeededBy: j.ID, Node: node, After: after, Limit: page, Outputs: true})
			if err != nil {
				yield(FlowNode{}, fmt.Errorf("job: needs: %w", err))
				return
			}
			for _, n := range list {
				if n.Output, err = OpenOutput(j.codec, n.Type, n.Output); err != nil {
					err = fmt.Errorf("job: the output of %q: %w", n.Node, err)
				}
				if !yield(n, err) {
					return
				}
				after = n.Position
			}
			full = len(list) == page
		}
	}
}
