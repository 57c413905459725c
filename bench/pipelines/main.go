package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/bench/bars"
)

// The names of cases that bars refer to.
const (
	inMemory    = "engine, source in memory, no-op task, concurrency 10"
	allocations = "engine, allocations for each transaction"
	hand        = "loop by hand with a semaphore, concurrency 10"
	theirs      = "Watermill's router, in-memory pub/sub"
	jsonl       = "1,000,000 lines of JSONL through a no-op task to JSONL"
	jetStream   = "JetStream consume with ack, batch 100"
	jetBare     = "the same by a bare client"
	rabbitMQ    = "RabbitMQ consume with ack"
	rabbitBare  = "RabbitMQ, bare client, an ack for every 100 messages"
	rabbitOne   = "RabbitMQ, bare client, an ack for each message"
	jsonlLoop   = "bare loop: read, decode, encode, write"
)

func main() {
	f := bars.Parse()
	bars.Main(func(ctx context.Context) (err error) {
		in, err := newInput()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, in.close()) }()
		nats, err := newBroker(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, nats.close()) }()
		rabbit, err := newRabbit()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rabbit.close()) }()
		return bars.Run(ctx, bars.Suite{
			Title:   "Benchmarks of pipelines",
			Command: fmt.Sprintf("go run -C bench ./pipelines -rounds %d -markdown ../docs/benchmarks-pipelines.md", f.Rounds),
			Cases: []bars.Case{
				{Name: inMemory, Unit: "transactions/s", Run: engine(false)}, {Name: allocations, Unit: "", Run: engine(true)},
				{Name: hand, Unit: "transactions/s", Run: byHand}, {Name: theirs, Unit: "transactions/s", Run: router},
				{Name: jsonl, Unit: "MB/s", Run: in.through}, {Name: jsonlLoop, Unit: "MB/s", Run: in.loop},
				{Name: jetStream, Unit: "messages/s", Run: nats.engine}, {Name: jetBare, Unit: "messages/s", Run: nats.bare},
				{Name: rabbitMQ, Unit: "messages/s", Run: rabbit.engine}, {Name: rabbitBare, Unit: "messages/s", Run: rabbit.bare(batch)},
				{Name: rabbitOne, Unit: "messages/s", Run: rabbit.bare(1)},
			},
			Bars: []bars.Bar{
				bars.AtLeast("engine, source in memory, no-op task, concurrency 10", "≥ 500,000 transactions/s", inMemory, 500_000, "transactions/s"),
				bars.AtMost("the same", "≤ 3 allocations each", allocations, 3.01, ""),
				bars.Ratio("the same", "≥ 3 × Watermill's router", inMemory, theirs, "transactions/s", 3, 0),
				bars.Ratio(jetStream, "≥ 0.8 × the bare client", jetStream, jetBare, "messages/s", 0.8, 0),
				bars.Ratio(rabbitMQ, "≥ 0.8 × the bare client at its best", rabbitMQ, rabbitBare, "messages/s", 0.8, 0),
				{Measure: jsonl, Goal: "≥ 200 MB/s, or ≥ 0.7 × a bare read-decode-encode-write loop", Needs: []string{jsonl, jsonlLoop}, Check: func(m bars.Medians) (string, bool) {
					ratio := m[jsonl] / m[jsonlLoop]
					return fmt.Sprintf("%.0f MB/s, %.2f × (%.0f MB/s)", m[jsonl], ratio, m[jsonlLoop]), m[jsonl] >= 200 || ratio >= 0.7
				}},
			},
		}, f)
	})
}
