package main

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/bench/bars"
)

// The names of cases that bars refer to.
const (
	inMemory    = "engine, source in memory, no-op task, concurrency 10"
	allocations = "engine, allocations for each transaction"
	hand        = "loop by hand with a semaphore, concurrency 10"
	theirs      = "Watermill's router, in-memory pub/sub"
)

func main() {
	f := bars.Parse()
	bars.Main(func(ctx context.Context) error {
		return bars.Run(ctx, bars.Suite{
			Title:   "Benchmarks of pipelines",
			Command: fmt.Sprintf("go run -C bench ./pipelines -rounds %d -markdown ../docs/benchmarks-pipelines.md", f.Rounds),
			Cases: []bars.Case{
				{Name: inMemory, Unit: "transactions/s", Run: engine(false)}, {Name: allocations, Unit: "", Run: engine(true)},
				{Name: hand, Unit: "transactions/s", Run: byHand}, {Name: theirs, Unit: "transactions/s", Run: router},
			},
			Bars: []bars.Bar{
				bars.AtLeast("engine, source in memory, no-op task, concurrency 10", "≥ 500,000 transactions/s", inMemory, 500_000, "transactions/s"),
				bars.AtMost("the same", "≤ 3 allocations each", allocations, 3.01, ""),
				bars.Ratio("the same", "≥ 3 × Watermill's router", inMemory, theirs, "transactions/s", 3, 0),
			},
		}, f)
	})
}
