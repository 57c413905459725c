package auditlog

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
)

func replayCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "replay [LOG]", Short: "Recompute every decision of a log", Args: cobra.MaximumNArgs(1),
		Long: `Recompute every judgement, decision and delay of a log from the recorded policies, facts and seeds, and list the first
divergence of each call, job or transaction. The answers of budgets and breakers, times, and delays of user code are taken as
recorded. No operation is run. The output does not depend on the order of the lines.

With --what-if the command reports instead what another document would have changed: which work would have succeeded or failed
earlier or later, and the attempts and waiting time, by category. Work whose end does not follow from the record is
counted separately.

Exit code 1: a recorded decision does not follow from the record, or a decision could not be recomputed, which
--allow-partial accepts. With --what-if both are part of the result.`,
		Example: "  tenet audit replay audit.jsonl\n  tenet audit replay audit.jsonl --what-if new.yaml -o json",
	}
	file := cmd.Flags().String("what-if", "", "policy document to compare with: a file, - for stdin, or server:URL/NAME@REV; without @REV the revision in force, and with --server NAME@REV is enough")
	alias := cmd.Flags().String("policy", "", "the same as --what-if")
	partial := cmd.Flags().Bool("allow-partial", false, "exit with 0 even if some decisions could not be recomputed")
	cli.ExplicitFlags(cmd, "policy")
	limit := cmd.Flags().Int("limit", 20, "how many divergences to list")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		if *limit < 1 {
			return cli.Usagef("--limit %d: write a number above 0", *limit)
		}
		if *file != "" && *alias != "" {
			return cli.Usagef("--policy is another name of --what-if; give one of them")
		}
		return open.WithAuditLog(cmd.Context(), a, logOf(args), func(log *open.AuditLog) error {
			if document := cmp.Or(*file, *alias); document != "" {
				r, err := whatIf(cmd.Context(), a, log, open.DocumentRef{Name: document, Token: open.Text(cmd, "token")})
				if err != nil {
					return err
				}
				err = a.Print(form, r, func(w io.Writer) { writeWhatIf(w, r) })
				return cmp.Or(err, log.CheckLines(r.Lines, r.Unreadable))
			}
			r, err := audit.Replay(cmd.Context(), log, audit.ReplayOptions{Limit: *limit})
			if err != nil {
				return err
			}
			if err := a.Print(form, r, func(w io.Writer) { writeReplayed(a, w, r) }); err != nil {
				return err
			}
			noEvents := log.CheckLines(r.Lines, r.Unreadable)
			switch {
			case r.Diverged > 0:
				return cli.Exit(cli.ExitFailed)
			case noEvents != nil:
				return noEvents
			case r.CannotReplay.Total()+r.Unreadable > 0 && !*partial:
				return cli.Fail(cli.ExitFailed, fmt.Errorf("%s: %d of %d calls and jobs cannot be replayed, and %s could not be read; --allow-partial accepts that",
					log.Name, r.CannotReplay.Total(), r.Works, cli.Count(r.Unreadable, "line")))
			}
			return nil
		})
	})
}

func writeReplayed(a *cli.App, w io.Writer, r *audit.ReplayReport) {
	verdict, n := a.Paint(a.Stdout, cli.Green, "replayed as recorded"), r.Replayed
	if r.Diverged > 0 {
		verdict, n = a.Paint(a.Stdout, cli.Red, "diverged"), r.Diverged
	}
	cli.Fprintf(w, "%s: %d of %d calls and jobs; %s, %s and %s computed again\n", verdict, n, r.Works,
		cli.Count(r.Judgements, "judgement"), cli.Count(r.Decisions, "decision"), cli.Count(r.Delays, "delay"))
	if c := r.CannotReplay; c.Total() > 0 {
		cli.Fprintf(w, "%s %d (no policy snapshot %d, attempts missing %d, unknown values %d, another version %d)\n",
			a.Paint(a.Stdout, cli.Yellow, "cannot replay:"), c.Total(), c.Policy, c.Attempt, c.Values, c.Core)
	}
	if r.Unreadable > 0 {
		cli.Fprintf(w, "%s %d; see audit verify\n", a.Paint(a.Stdout, cli.Yellow, "unreadable lines:"), r.Unreadable)
	}
	if len(r.Divergences) > 0 {
		cli.Table(w, "WORK\tEVENT\tATTEMPT\tABOUT\tRECORDED\tREPLAYED", r.Divergences, func(d audit.Divergence) []any {
			return []any{d.WorkID, d.EventID, d.Attempt, d.What, d.Recorded, d.Replayed}
		})
	}
}

// whatIf replays a log under another document.
func whatIf(ctx context.Context, a *cli.App, log *open.AuditLog, r open.DocumentRef) (*audit.WhatIfReport, error) {
	document, err := open.Document(ctx, a, r)
	if err != nil {
		return nil, err
	}
	return audit.WhatIf(ctx, log, document.Set, audit.ReplayOptions{})
}

func writeWhatIf(w io.Writer, r *audit.WhatIfReport) {
	total := r.Total
	total.Category = totalName
	rows := append(slices.Clone(r.Categories), total)
	cli.Table(w, "CATEGORY\tCALLS\tSAME\tSUCCEED EARLIER\tLATER\tFAIL EARLIER\tLATER\tLOST\tCANNOT KNOW\tATTEMPTS\tWAITING", rows, func(c audit.WhatIfCategory) []any {
		return []any{
			cmp.Or(c.Category, otherName), c.Works, c.Same, c.SucceededEarlier, c.SucceededLater, c.FailedEarlier, c.FailedLater,
			c.LostSuccesses, c.CannotKnow, fmt.Sprintf("%d → %d", c.Before.Attempts, c.After.Attempts),
			fmt.Sprintf("%s → %s", cli.Brief(time.Duration(c.Before.Waiting)), cli.Brief(time.Duration(c.After.Waiting))),
		}
	})
	if r.Unreadable > 0 {
		cli.Fprintf(w, "unreadable lines: %d; see audit verify\n", r.Unreadable)
	}
}

// statsResult is the output of "audit stats".
type statsResult struct {
	*audit.StatsReport
	Alerts []audit.Firing `json:"alerts"` // that fired
}

func auditStatsCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "stats [LOG]", Short: "Summarize a log by category", Args: cobra.MaximumNArgs(1),
		Long: `Summarize a log by category: calls (and jobs), attempts, success rate, attempts per call, amplification (operations run per
call, hedges included), delays, and retries per minute, as the highest of any minute and the mean.

--alert METRIC>NUMBER exits with 4 if the total or a category is above (>, >=) or below (<, <=) a number. Metrics: rate and
mean_rate (retries per min, s or h), success_rate, average_attempts, amplification, calls, failed, unfinished, attempts,
retries, hedges, mean_delay and max_delay (durations).`,
		Example: "  tenet audit stats audit.jsonl\n  tenet audit stats audit.jsonl --alert 'rate>100/min' --alert 'success_rate<0.9'",
	}
	exprs := cmd.Flags().StringArray("alert", nil, "threshold such as 'rate>100/min'; may be repeated")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		var alerts []audit.Alert
		for _, text := range *exprs {
			alert, err := audit.ParseAlert(text)
			if err != nil {
				return cli.Usagef("--alert: %w", err)
			}
			alerts = append(alerts, alert)
		}
		return open.WithAuditLog(cmd.Context(), a, logOf(args), func(log *open.AuditLog) error {
			report, err := audit.Statistics(cmd.Context(), log, audit.Spill{})
			if err != nil {
				return err
			}
			r := statsResult{report, []audit.Firing{}}
			for _, alert := range alerts {
				r.Alerts = append(r.Alerts, report.Check(alert)...)
			}
			if err := a.Print(form, r, func(w io.Writer) { writeStats(w, report) }); err != nil {
				return err
			}
			if err := log.CheckLines(report.Lines, report.Unreadable); err != nil {
				return err
			}
			for _, f := range r.Alerts {
				a.Say(slog.LevelError, a.Paint(a.Stderr, cli.Red, "alert:"), "%s: %s is %s", f.Alert, rowName(f.Category, f.Step, totalName), figure(&f.Value))
			}
			if len(r.Alerts) > 0 {
				return cli.Exit(cli.ExitThreshold)
			}
			return nil
		})
	})
}

func writeStats(w io.Writer, r *audit.StatsReport) {
	total := r.Total
	total.Category = totalName
	rows := append(slices.Clone(r.Categories), total)
	cli.Table(w, "CATEGORY\tCALLS\tSUCCEEDED\tFAILED\tUNFINISHED\tSUCCESS RATE\tATTEMPTS\tAVERAGE\tAMPLIFICATION\tMEAN DELAY\tMAX DELAY\tRETRIES/MIN MAX\tMEAN", rows,
		func(c audit.CategoryStats) []any {
			return []any{
				rowName(c.Category, c.Step, otherName), c.Calls, c.Succeeded, c.Failed, c.Unfinished, figure(c.SuccessRate), c.Attempts,
				figure(c.AverageAttempts), figure(c.Amplification), cli.Brief(time.Duration(c.MeanDelay)), cli.Brief(time.Duration(c.MaxDelay)),
				c.MaxRate, figure(&c.MeanRate),
			}
		})
	if r.Lost > 0 {
		cli.Fprintf(w, "lost: %d events, as their writers report\n", r.Lost)
	}
	if r.Unreadable > 0 {
		cli.Fprintf(w, "unreadable lines: %d; see audit verify\n", r.Unreadable)
	}
}

// The names of rows without a category.
const (
	totalName = "total"
	otherName = "(none)"
)

// rowName returns the category of a row, with the step if it belongs to a pipeline, or none for a row without either.
func rowName(code, step, none string) string {
	switch {
	case step == "":
		return cmp.Or(code, none)
	case code == "":
		return step
	}
	return code + " " + step
}

// figure formats a number with four digits.
func figure(f *float64) string {
	if f == nil {
		return "-"
	}
	return strconv.FormatFloat(*f, 'g', 4, 64)
}
