// Package bars measures cases in interleaved rounds, takes medians and compares them with the project's goals.
package bars

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Case is one measurement. It returns a figure in the case's unit.
type Case struct {
	Name, Unit string
	Run        func(ctx context.Context) (float64, error)
}

// Bar is a goal.
type Bar struct {
	Measure, Goal string
	// Needs names the cases of the bar; the report omits the bar if one was not measured.
	Needs []string
	// Check returns the measured figure and whether it meets the bar.
	Check func(m Medians) (how string, ok bool)
}

// Medians are the figures by case name.
type Medians map[string]float64

// Suite is a command's cases and bars.
type Suite struct {
	Title, Command string   // the document's title and the command that wrote it
	Facts          []string // facts about the measurement: versions, sizes
	Cases          []Case
	Bars           []Bar
}

// Flags are the flags of all commands.
type Flags struct {
	Rounds   int
	Only     string
	Markdown string
}

// Parse adds the flags to the command line and parses it.
func Parse() *Flags {
	f := &Flags{}
	flag.IntVar(&f.Rounds, "rounds", 3, "number of measurements of each case; the report has the medians")
	flag.StringVar(&f.Only, "only", "", "measure cases whose name contains this")
	flag.StringVar(&f.Markdown, "markdown", "", "write the report into this file")
	flag.Parse()
	return f
}

// Main runs f until it ends or the command is interrupted, and exits with 1 on an error.
func Main(f func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := f(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Run measures a suite and writes the report to stdout or into the file of the flags.
func Run(ctx context.Context, s Suite, f *Flags) error {
	began := Load()
	all := map[string][]float64{}
	for round := range f.Rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, f.Rounds)
		for _, c := range s.Cases {
			if !strings.Contains(c.Name, f.Only) {
				continue
			}
			runtime.GC()
			v, err := c.Run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			all[c.Name] = append(all[c.Name], v)
		}
	}
	medians := Medians{}
	for name, list := range all {
		slices.Sort(list)
		medians[name] = list[len(list)/2]
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n\nWritten by `%s`; do not edit by hand. Medians of %d interleaved rounds.\n\n", s.Title, s.Command, f.Rounds)
	s.report(&out, began, medians)
	if f.Markdown == "" {
		_, err := os.Stdout.Write(out.Bytes())
		return err
	}
	return os.WriteFile(f.Markdown, out.Bytes(), 0o600)
}

func (s Suite) report(w io.Writer, began string, m Medians) {
	fmt.Fprintf(w, "- %s\n- Load average when the run began: %s\n- Date: %s\n", Machine(), began, time.Now().Format(time.DateOnly))
	for _, fact := range s.Facts {
		fmt.Fprintf(w, "- %s\n", fact)
	}
	fmt.Fprint(w, "\n## Bars\n\nWhat the project holds itself to.\n\n| measure | bar | measured | |\n|---|---|---|---|\n")
	for _, b := range s.Bars {
		if slices.ContainsFunc(b.Needs, func(name string) bool { _, measured := m[name]; return !measured }) {
			continue
		}
		how, ok := b.Check(m)
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", b.Measure, b.Goal, how, Mark(ok))
	}
	fmt.Fprint(w, "\n## Cases\n\n| case | median |\n|---|---|\n")
	for _, c := range s.Cases {
		if v, ok := m[c.Name]; ok {
			fmt.Fprintf(w, "| %s | %s |\n", c.Name, Figure(v, c.Unit))
		}
	}
}

// Figure writes a figure with its unit.
func Figure(v float64, unit string) string {
	switch {
	case v >= 10_000:
		return fmt.Sprintf("%.0fk %s", v/1000, unit)
	case v >= 100:
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.2f %s", v, unit)
}

// AtMost is the bar on a figure.
func AtMost(measure, goal, name string, limit float64, unit string) Bar {
	return Bar{measure, goal, []string{name}, func(m Medians) (string, bool) { return Figure(m[name], unit), m[name] <= limit }}
}

// AtLeast is the bar on a figure.
func AtLeast(measure, goal, name string, limit float64, unit string) Bar {
	return Bar{measure, goal, []string{name}, func(m Medians) (string, bool) { return Figure(m[name], unit), m[name] >= limit }}
}

// Ratio is the bar on a figure as a multiple of another's: at least low, or at most high where low is 0.
func Ratio(measure, goal, name, other, unit string, low, high float64) Bar {
	return Bar{measure, goal, []string{name, other}, func(m Medians) (string, bool) {
		ratio := m[name] / m[other]
		return fmt.Sprintf("%.2f × (%s / %s)", ratio, Figure(m[name], unit), Figure(m[other], unit)), ratio >= low && (high == 0 || ratio <= high)
	}}
}
