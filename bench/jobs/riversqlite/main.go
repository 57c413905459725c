// Command riversqlite measures River on SQLite for bench/jobs, which starts it: it reads a request as JSON from standard input
// and writes an answer to standard output. It is a separate module because River's newest SQLite driver needs an older River
// than its newest PostgreSQL driver.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/tenetdev/tenet/bench/jobs/riversqlite/measure"
)

// Request asks for a measurement.
type Request struct {
	Task  measure.Task
	Path  string // path of the database, which does not exist yet
	Tuned bool
}

// Answer is the result of a request.
type Answer struct {
	Numbers  measure.Numbers
	Versions []string
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "riversqlite:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var q Request
	if err := json.NewDecoder(os.Stdin).Decode(&q); err != nil {
		return err
	}
	s, err := open(ctx, q.Path, q.Tuned)
	if err != nil {
		return err
	}
	numbers, err := q.Task.Run(ctx, s, nil)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(Answer{Numbers: numbers, Versions: versions()})
}

func versions() (list []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/riverqueue/river" || strings.HasSuffix(m.Path, "/riversqlite") || m.Path == "modernc.org/sqlite" {
			list = append(list, m.Path+" "+m.Version)
		}
	}
	return list
}
