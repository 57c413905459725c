package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/tenetdev/tenet/bench/bars"
)

func main() {
	serving := flag.String("serve", "", "internal: serve this SQLite file or PostgreSQL URL, as the second process does")
	jobs := flag.Int("jobs", 1_000_000, "jobs in the SQLite store")
	large := flag.Int("postgres", 0, "jobs in a PostgreSQL store; 0 leaves it out (10,000,000 take about five minutes to store)")
	open := flag.Int("open", 200, "open live pages")
	f := bars.Parse()
	bars.Main(func(ctx context.Context) (err error) {
		if *serving != "" {
			return serve(ctx, *serving)
		}
		lite, err := newSQLite(ctx, *jobs)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lite.close()) }()
		all, goals := lite.cases(*open), goals(*open, lite)
		if *large > 0 {
			pg, err := newPostgres(ctx, *large)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, pg.close()) }()
			all, goals = append(all, pg.pageCases()...), append(goals, pg.pageGoals()...)
		}
		return bars.Run(ctx, bars.Suite{
			Title:   "Benchmarks of the web UI",
			Command: fmt.Sprintf("go run -C bench ./ui -rounds %d -jobs %d -postgres %d -markdown ../docs/benchmarks-ui.md", f.Rounds, *jobs, *large),
			Facts: []string{
				fmt.Sprintf("The server is a process of its own on loopback. Times of pages are those of a client on the same machine, 95th percentile of %d requests.", requestsOfPage),
				fmt.Sprintf("%d live pages are open on five addresses; beside them a program enqueues 20 jobs a second. Without open pages the same load is measured, and taken off.", *open),
			},
			Cases: all, Bars: goals,
		}, f)
	})
}
