package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/tenetdev/tenet/bench/bars"
)

// settings are the command's flags.
type settings struct {
	jobs, long, backlog int
	rounds              int
	time                time.Duration
	only                string
	markdown            string
}

// command is the command line that the document shows.
func (o settings) command() string {
	return fmt.Sprintf("go run -C bench ./jobs -n %d -long %d -backlog %d -rounds %d -time %s -markdown %s", o.jobs, o.long, o.backlog, o.rounds, o.time, o.markdown)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "jobs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	busy := bars.Load()
	env, err := newEnvironment(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.close()) }()
	results, rounds, err := measureAll(ctx, env, o, progress)
	if err != nil {
		return err
	}
	var document bytes.Buffer
	if err := writeDocument(ctx, &document, o, env, busy, rounds, results); err != nil {
		return err
	}
	if o.markdown != "" {
		writeBars(out, results)
		return os.WriteFile(o.markdown, document.Bytes(), 0o600)
	}
	_, err = document.WriteTo(out)
	return err
}

func parse(args []string, help io.Writer) (settings, error) {
	var o settings
	flags := flag.NewFlagSet("jobs", flag.ContinueOnError)
	flags.SetOutput(help)
	flags.IntVar(&o.jobs, "n", 200_000, "number of jobs of a tuned burn-down on PostgreSQL; other burn-downs run a part of it")
	flags.IntVar(&o.long, "long", 200_000, "jobs that run beside a long-open transaction")
	flags.IntVar(&o.backlog, "backlog", 1_000_000, "the largest backlog of claims; smaller ones are 1,000 and a tenth of it")
	flags.IntVar(&o.rounds, "rounds", 5, "highest number of measurements of each case; the report has the medians")
	flags.DurationVar(&o.time, "time", 5*time.Minute, "start no round that would end after about this time")
	flags.StringVar(&o.only, "only", "", "measure scenarios whose name contains this")
	flags.StringVar(&o.markdown, "markdown", "", "write the report into this file")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.jobs < 1000 || o.long < 1000:
		return o, errors.New("-n or -long is below 1000, which is too few to time")
	case o.backlog < 20_000:
		return o, errors.New("-backlog is below 20000; use 100000 for a quick look")
	case o.rounds < 1:
		return o, errors.New("-rounds is below 1; use 1 or more")
	case o.markdown != "" && o.only != "":
		return o, errors.New("-markdown needs all scenarios; leave out -only")
	case len(selected(o)) == 0:
		return o, fmt.Errorf("-only %q: no scenario's name contains this", o.only)
	}
	return o, nil
}
