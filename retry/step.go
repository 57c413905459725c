package retry

import (
	"context"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// Step is one step of a transaction that passes through a pipeline.
type Step struct {
	// Key of the step's policy, see policy.ConsumerKey and policy.ProducerKey.
	Key policy.Key
	// ID is the transaction's ID, the same for all its steps.
	ID string
	// Name of the step. With the ID it seeds the delays.
	Name string
	// Turn is the step's position within its transaction, from 1; it orders the transaction's events.
	Turn int
	// Operation, TenantID, CorrelationID and TraceID go into records.
	Operation, TenantID, CorrelationID, TraceID string
}

// DoStep is [Executor.Do] for a step. Its records identify the transaction as the work. A classifier judges only its errors: nil is
// a success. It costs less than a call with the corresponding options.
func (e *Executor) DoStep(ctx context.Context, s Step, op Operation) error {
	argument.Need(op != nil, "retry: the operation")
	p := e.planFor(ctx, s.Key)
	_, err := do[struct{}](ctx, s.options(p), op, nil)
	return err
}

func (s Step) options(p *plan) *callOptions {
	return &callOptions{
		plan:     p,
		position: position{id: s.ID, step: s.Name, turn: s.Turn},
		labels:   labels{operation: s.Operation, tenantID: s.TenantID, correlationID: s.CorrelationID, traceID: s.TraceID},
	}
}
