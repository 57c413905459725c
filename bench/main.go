package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/bench/bars"
	"github.com/tenetdev/tenet/bench/outage"
)

// settings are the command's flags.
type settings struct {
	rounds   int
	each     time.Duration
	only     string
	grid     bool
	markdown string
}

// command is the command line that the document shows.
func (o settings) command() string {
	return fmt.Sprintf("cd bench && go run . -rounds %d -time %s -markdown %s", o.rounds, o.each, o.markdown)
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	if o.grid {
		writeGrid(out, outage.Run(), 0)
		return nil
	}
	busy := bars.Load()
	results, err := measure(progress, o.only, o.rounds, o.each)
	if err != nil {
		return err
	}
	if o.markdown == "" {
		fmt.Fprintf(out, "%s; load average %s\n", bars.Machine(), busy)
		for _, v := range versions() {
			fmt.Fprintln(out, v)
		}
		fmt.Fprintln(out)
		writeScenarios(out, results)
		writeBars(out, results)
		return nil
	}
	var document bytes.Buffer
	writeDocument(&document, o, busy, results, outage.Run())
	writeBars(out, results)
	return os.WriteFile(o.markdown, document.Bytes(), 0o600)
}

func parse(args []string, help io.Writer) (settings, error) {
	var o settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(help)
	flags.IntVar(&o.rounds, "rounds", 7, "number of measurements of each case; the report has the medians")
	flags.DurationVar(&o.each, "time", 100*time.Millisecond, "approximate time of a case in a round, once alone and once in parallel")
	flags.StringVar(&o.only, "only", "", "measure scenarios whose name contains this")
	flags.BoolVar(&o.grid, "grid", false, "print the outage grid in full and measure nothing")
	flags.StringVar(&o.markdown, "markdown", "", "write the report into this file")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.rounds < 1:
		return o, errors.New("-rounds is below 1; use 1 or more")
	case o.each <= 0:
		return o, errors.New("-time is not positive; use 100ms or so")
	case o.markdown != "" && (o.grid || o.only != ""):
		return o, errors.New("-markdown needs all scenarios; leave out -grid and -only")
	case len(selected(o.only)) == 0:
		return o, fmt.Errorf("-only %q matches no scenario", o.only)
	}
	return o, nil
}

// versions lists the measured modules.
func versions() []string {
	peers := []string{"failsafe-go", "cenkalti", "avast", "sethvargo", "gobreaker", "x/time"}
	return bars.Modules(func(path string) bool {
		return slices.ContainsFunc(peers, func(p string) bool { return strings.Contains(path, p) })
	})
}

func processors() int { return runtime.GOMAXPROCS(0) }
