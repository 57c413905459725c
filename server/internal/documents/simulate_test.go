package documents_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenetdev/tenet/server/internal/documents"
)

func TestT2OneSimulationRunsAtATime(t *testing.T) {
	s, _ := newService(t)
	publish(t, s, 0, first)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { // until it is stopped, one simulation follows the other
		var err error
		for err == nil {
			_, err = s.Simulate(ctx, documents.Simulation{Name: "shop", Revision: 1, Scenario: `{version: 1, duration: 5m, services: {db: {}}, clients: {web: {service: db, policy: users.Get, rate: 1000}}}`})
		}
		ended <- err
	}()
	for busy := false; !busy; {
		limited, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := s.Simulate(limited, documents.Simulation{Name: "shop", Revision: 1, Scenario: `{version: 1, duration: 1s, services: {db: {}}, clients: {web: {service: db, rate: 1}}}`})
		cancel()
		var late *documents.InvalidError // the millisecond was over before the simulation, or before the store had answered
		if busy = errors.Is(err, documents.ErrBusy); err != nil && !busy && !errors.As(err, &late) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, documents.ErrBusy) {
		t.Error(err)
	}
}
