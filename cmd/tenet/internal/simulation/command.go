package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/simulate"
)

// maxMemory bounds a simulation, in bytes.
const maxMemory = min(8<<30, math.MaxInt)

// Command returns "tenet simulate".
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "simulate SCENARIO.yaml", Short: "Run policies in a simulated world", Args: cobra.ExactArgs(1),
		Long: `Run a scenario: services that queue and slow down, clients that call them under policies, and faults over time.
The production executor makes every decision, in virtual time. The same scenario, policies and seed always give the same output.
--policy runs the scenario with the policies of another document. --html writes a page with plots that needs nothing else, --svg the plots alone. The
file - is stdin. Exits with 3 if the scenario or the document is invalid.`,
		Example: "  tenet simulate examples/scenarios/retry-storm.yaml\n" +
			"  tenet simulate examples/scenarios/retry-storm.yaml --policy policies.yaml --html report.html --seed 7",
	}
	document := cli.DocumentFlag(cmd)
	page := cmd.Flags().String("html", "", "file to write an HTML page with plots to")
	image := cmd.Flags().String("svg", "", "file to draw the plots into, as an SVG image")
	seed := cmd.Flags().Uint64("seed", 0, "seed of all random numbers (default: that of the scenario)")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		ctx := cmd.Context()
		switch {
		case cmd.Flags().Changed("seed") && *seed == 0:
			return cli.Usagef("--seed: 0 is not a seed; write 1 or more")
		case *page != "" && *page == *image:
			return cli.Usagef("--html and --svg name the same file %s", *page)
		}
		text, err := a.ReadFile(ctx, args[0])
		if err != nil {
			return err
		}
		scenario, err := simulate.Parse(args[0], text)
		if err != nil {
			return a.Refused(err)
		}
		options := simulate.Options{Seed: *seed, Bounds: simulate.Bounds{Memory: maxMemory}}
		if *document != "" {
			d, err := a.Load(ctx, *document)
			if err != nil {
				return err
			}
			options.Policies = d.Set
		}
		report, err := scenario.Run(ctx, options)
		if errors.Is(err, simulate.ErrTooLarge) {
			return fmt.Errorf("the simulation would need more than %d GiB: shorten it, lower its rates, or bound its queues", maxMemory>>30)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return a.Refused(err)
		}
		if err := errors.Join(writeTo(*page, report.WriteHTML), writeTo(*image, report.WriteSVG)); err != nil {
			return err
		}
		return a.Print(form, report, func(w io.Writer) { write(w, report) })
	})
}

// writeTo writes a file, unless its name is empty.
func writeTo(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return cli.NotMade(name, files.Write(name, b.Bytes()))
}

// write prints the totals.
func write(w io.Writer, r *simulate.Report) {
	if r.Title != "" {
		cli.Fprintln(w, r.Title)
	}
	for _, t := range r.Tables() {
		cli.Fprintln(w)
		cli.Table(w, strings.Join(t.Head, "\t"), t.Rows, func(row []string) []any {
			return lists.Map(row, func(cell string) any { return cell })
		})
	}
}
