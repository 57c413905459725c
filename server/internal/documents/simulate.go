package documents

import (
	"context"
	"errors"
	"time"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/simulate"
)

// simulationBounds keep a simulation within a few seconds of one core, and within memory.
var simulationBounds = simulate.Bounds{Events: 3_000_000, Memory: 128 << 20}

// simulationWait is how long a simulation waits for the one before it.
const simulationWait = 10 * time.Second

// ErrBusy is the error of a simulation that has waited too long for others.
var ErrBusy = errors.New("other simulations are running")

// Simulation is a scenario for a revision.
type Simulation struct {
	Name     string
	Revision int64
	Scenario string // its policies are left out of account
	Seed     uint64 // 0 for the scenario's
}

// Simulate runs a scenario under the policies of a revision. One simulation runs at a time. It returns policystore.ErrNotFound,
// *InvalidError with all faults of the scenario, also if it is too large, or ErrBusy.
func (s *Service) Simulate(ctx context.Context, q Simulation) (*simulate.Report, error) {
	d, _, err := s.revision(ctx, q.Name, q.Revision)
	if err != nil {
		return nil, err
	}
	scenario, err := simulate.Parse("scenario", []byte(q.Scenario))
	if err != nil {
		return nil, invalid(err)
	}
	limited, cancel := context.WithTimeout(ctx, simulationWait)
	defer cancel()
	if s.simulating.Lock(limited) != nil {
		return nil, ErrBusy
	}
	defer s.simulating.Unlock()
	report, err := scenario.Run(ctx, simulate.Options{Policies: d.Set, Seed: q.Seed, Bounds: simulationBounds})
	switch {
	case errors.Is(err, simulate.ErrTooLarge), errors.Is(err, context.DeadlineExceeded):
		return nil, &InvalidError{Cause: errors.New("the simulation is too large for a server: shorten it, lower its rates, or run it with tenet simulate")}
	case ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, invalid(err) // the revision lacks a policy that the scenario names
	}
	return report, nil
}

// invalid describes an error of a parser.
func invalid(err error) error {
	e := &InvalidError{Cause: err}
	if refused, ok := errors.AsType[*policyfile.Error](err); ok {
		e.Faults = refused.Faults
	}
	return e
}
