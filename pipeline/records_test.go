package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// subjects records the work of events.
type subjects struct {
	mu    sync.Mutex
	lines []string
}

func (s *subjects) Observe(_ context.Context, e *observe.Event) {
	if e.Type != observe.CallEnded && e.Type != observe.Idempotent {
		return
	}
	w := e.Work
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf("%s %s tenant=%s operation=%s category=%s", e.Type, w.Key, w.TenantID, w.Operation, w.Category))
}

func TestA1EventsOfStepsCarryTenantOperationAndCategory(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		p := consumerPolicy(1, 1)
		p.Category = policy.APIRequest
		p.Steps.Fetch.Category = policy.NATSSubscribe
		p.Steps.Process.Category = "RETRY_KV_PUT"
		s := &script{handlers: "s"}
		var seen subjects
		guard, err := idempotency.NewGuard(memory.Open().Idempotency(), idempotency.GuardOptions{Observer: &seen})
		if err != nil {
			t.Fatal(err)
		}
		tx := pipeline.NewTransaction("a", nil, pipeline.WithMetadata(map[string]string{pipeline.MetaTenant: "acme"}))
		source := pipeline.NewMemorySource(tx)
		c := pipeline.NewConsumer(source, s.task(), p, pipeline.WithName("orders"), pipeline.WithObserver(&seen), pipeline.WithGuard(guard), quiet)
		if _, err := c.Run(bg); err != nil {
			t.Fatal(err)
		}
		slices.Sort(seen.lines)
		want := []string{
			"call_ended consumer/orders.fetch tenant= operation=orders.fetch category=NATS_SUBSCRIBE",
			"call_ended consumer/orders.fetch tenant= operation=orders.fetch category=NATS_SUBSCRIBE", // the end of the source
			"call_ended consumer/orders.process tenant=acme operation=orders.process category=KV_PUT",
			"call_ended consumer/orders.run tenant= operation=orders.run category=API_REQUEST",
			"call_ended consumer/orders.success tenant=acme operation=orders.success category=API_REQUEST",
			"call_ended consumer/orders.transaction tenant=acme operation=orders.transaction category=API_REQUEST",
			"idempotency consumer/orders.transaction tenant=acme operation=orders.transaction category=API_REQUEST",
		}
		if diff := cmp.Diff(want, seen.lines); diff != "" {
			t.Error(diff)
		}
	})
}
