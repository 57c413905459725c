package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/tenetdev/tenet/bench/bars"
)

func main() {
	events := flag.Int("events", 1_000_000, "number of events of the log to verify and replay")
	write := flag.String("write", "", "only write the log, to this `file`")
	f := bars.Parse()
	bars.Main(func(ctx context.Context) (err error) {
		if *write != "" {
			return writeLog(ctx, *write, *events)
		}
		env, err := newEnvironment(ctx, *events)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, env.close()) }()
		return bars.Run(ctx, bars.Suite{
			Title:   "Benchmarks of idempotency and audit",
			Command: fmt.Sprintf("go run -C bench ./records -rounds %d -events %d -markdown ../docs/benchmarks-records.md", f.Rounds, *events),
			Facts: []string{
				env.server, fmt.Sprintf("The log that is verified and replayed has %d events, %d MB.", env.events, env.size>>20),
			},
			Cases: cases(env), Bars: goals(),
		}, f)
	})
}
