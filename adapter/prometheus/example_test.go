package prom_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	prom "github.com/tenetdev/tenet/adapter/prometheus"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// One observer serves every executor of the process; promhttp serves its registry.
func Example() {
	registry := prometheus.NewRegistry()
	observer, err := prom.New(prom.Options{Registerer: registry})
	if err != nil {
		log.Fatal(err)
	}

	// An executor with this observer makes these calls.
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	observer.Observe(context.Background(), &observe.Event{
		Type:     observe.CallEnded,
		Work:     observe.Work{Key: policy.ParseKey("user-service.GetUser"), Surface: policy.SurfaceCall},
		Timeline: &observe.Timeline{Start: begin, End: begin.Add(40 * time.Millisecond), Reason: policy.ReasonSuccess},
	})

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "tenet_calls_total" {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: tenet_calls_total 1
}
