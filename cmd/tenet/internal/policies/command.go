package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// Command returns "tenet policy".
func Command(a *cli.App) *cobra.Command {
	cmd := cli.Group("policy", "Check, prove, show, format and import policy documents", "Check, prove, show, format and import policy documents.",
		checkCommand(a), proveCommand(a), showCommand(a), delaysCommand(a), schemaCommand(a), catalogCommand(a), limitsCommand(a), formatCommand(a), importCommand(a))
	cmd.Example = `  tenet policy check policies.yaml
  tenet policy show user-service.GetUser --policy policies.yaml`
	return cmd
}

// checkResult is the output of "policy check" for a file.
type checkResult struct {
	File     string            `json:"file"`
	Valid    bool              `json:"valid"`
	Keys     []string          `json:"keys"`
	Revision string            `json:"revision"`
	Faults   []cli.FaultResult `json:"faults"`
	Warnings []cli.FaultResult `json:"warnings"`
}

func checkCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check FILE…", Short: "Report every fault of policy documents", Args: cobra.MatchAll(cobra.MinimumNArgs(1), cli.OneStdin),
		Long: `Read policy documents and report every fault with its place and the remedy.
A value beyond a limit is a warning, because it is clamped. So is a classifier or class of errors that a program must
register; the warning names the package that has it. The file - is stdin. Exits with 3 if a document is invalid.`,
		Example: "  tenet policy check policies.yaml\n  tenet policy check -o json *.yaml",
	}
	return cli.WithOutput(cmd, func(cmd *cobra.Command, files []string, form string) error {
		results := make([]checkResult, 0, len(files))
		invalid := false
		for _, file := range files {
			r, err := check(cmd.Context(), a, file)
			if err != nil {
				return err
			}
			invalid = invalid || !r.Valid
			results = append(results, r)
		}
		err := a.Print(form, results, func(w io.Writer) { writeChecks(a, w, results) })
		if err == nil && invalid {
			err = cli.Exit(cli.ExitInvalid)
		}
		return err
	})
}

func check(ctx context.Context, a *cli.App, file string) (checkResult, error) {
	r := checkResult{File: file, Keys: []string{}, Faults: []cli.FaultResult{}, Warnings: []cli.FaultResult{}}
	text, err := a.ReadFile(ctx, file)
	if err != nil {
		return r, err
	}
	document, err := policyfile.Parse(file, text, policyfile.Options{})
	refused, ok := errors.AsType[*policyfile.Error](err)
	switch {
	case ok:
		r.add(refused.Faults)
		a.PrintFaults(refused.Faults)
		return r, nil
	case err != nil:
		return r, err
	}
	warnings := slices.Concat(document.Warnings, needsCode(file, document))
	r.add(warnings)
	a.PrintFaults(warnings)
	r.Valid, r.Revision = true, document.Set.Revision()
	r.Keys = lists.Map(document.Set.Keys(), policy.Key.String)
	return r, nil
}

func (r *checkResult) add(faults []policyfile.Fault) {
	for _, f := range faults {
		list := &r.Faults
		if f.Warning {
			list = &r.Warnings
		}
		*list = append(*list, cli.FaultResultOf(f))
	}
}

func writeChecks(a *cli.App, w io.Writer, results []checkResult) {
	for _, r := range results {
		if !r.Valid {
			cli.Fprintf(w, "%s: %s, %s\n", r.File, a.Paint(a.Stdout, cli.Red, "invalid"), cli.Count(len(r.Faults), "fault"))
			continue
		}
		cli.Fprintf(w, "%s: %s, %s", r.File, a.Paint(a.Stdout, cli.Green, "valid"), cli.Count(len(r.Keys), "key"))
		if len(r.Warnings) > 0 {
			cli.Fprintf(w, ", %s", cli.Count(len(r.Warnings), "warning"))
		}
		cli.Fprintf(w, ", revision %.12s\n", r.Revision)
	}
}

// showResult is the output of "policy show".
type showResult struct {
	Key      string         `json:"key"`
	Policy   *policy.Policy `json:"policy"`
	Source   policy.Source  `json:"source"`
	Clamped  []string       `json:"clamped"`
	Revision string         `json:"revision"`
}

func showCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show KEY --policy FILE", Short: "Show the policy of a key, with every default filled in", Args: cobra.ExactArgs(1),
		Long: `Show the policy that a document gives to a key: every field with its effective value and the source of that value.
Keys of jobs are job/QUEUE.TYPE, those of pipeline steps consumer/NAME.STEP and producer/NAME.STEP. A job type, a queue, a
consumer, a producer or NAME.STEP is enough if no call has that key.

Keys that begin with "run." have the limits and defaults of tenet run. To see the policy that a command gets under another key,
use tenet run --dry-run.`,
		Example: "  tenet policy show user-service.GetUser --policy policies.yaml\n  tenet policy show job/emails.email:send --policy policies.yaml -o json",
	}
	file := cli.DocumentFlag(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		document, p, err := find(cmd.Context(), a, *file, args[0])
		if err != nil {
			return err
		}
		clamped := append([]string{}, p.Meta.Clamped...) // not nil
		r := showResult{Key: p.Key.String(), Policy: p, Source: p.Meta.Source, Clamped: clamped, Revision: p.Meta.Revision}
		return a.Print(form, r, func(w io.Writer) { Describe(a, w, p, document) })
	})
}

// find loads a document and finds the policy of a key in it.
func find(ctx context.Context, a *cli.App, file, name string) (*policyfile.Document, *policy.Policy, error) {
	switch {
	case file == "":
		return nil, nil, cli.Usagef("no document given; name it with --policy FILE")
	case policy.ParseKey(name).IsZero():
		return nil, nil, cli.Usagef("the key is empty")
	}
	limits := policy.CallLimits()
	if policy.ParseKey(name).Namespace == RunNamespace {
		limits = CommandLimits()
	}
	document, err := a.LoadWithin(ctx, file, map[policy.Surface]policy.Limits{policy.SurfaceCall: limits})
	if err != nil {
		return nil, nil, err
	}
	key := document.Set.Find(name)
	if !document.Set.Named(key) {
		a.Warn("%s does not name %s; its defaults apply", file, key)
	}
	return document, cli.PolicyOf(document.Set, key), nil
}

func schemaCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of policy documents", Args: cobra.NoArgs,
		Long:    "Print the JSON Schema (draft 2020-12) of policy documents, for editors and other checkers.",
		Example: "  tenet policy schema > tenet.schema.json",
	}
	return cli.WithOutput(cmd, func(_ *cobra.Command, _ []string, form string) error {
		schema := policyfile.Schema()
		return a.Print(form, json.RawMessage(schema), cli.AsLine("%s", cli.Safe(strings.TrimSpace(string(schema)))))
	})
}

// catalogResult is a row of the catalog.
type catalogResult struct {
	Category policy.Category `json:"category"`
	Code     string          `json:"code"`
	Retry    policy.Retry    `json:"retry"`
}

func catalogCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "catalog", Short: "List the operation categories and their defaults", Args: cobra.NoArgs,
		Long:    "List the operation categories that policies can take their defaults from (category: NATS_PUBLISH).",
		Example: "  tenet policy catalog\n  tenet policy catalog -o jsonl",
	}
	return cli.WithOutput(cmd, func(_ *cobra.Command, _ []string, form string) error {
		rows := make([]catalogResult, 0, len(policy.Categories()))
		for _, c := range policy.Categories() {
			r, _ := c.Policy()
			rows = append(rows, catalogResult{c, c.Code(), r})
		}
		return a.Print(form, rows, cli.AsTable("category\tcode\tattempts\tbackoff\tcap\ttimeout\tjitter", rows, func(row catalogResult) []any {
			r := row.Retry
			return []any{row.Category, row.Code, r.MaxAttempts, r.InitialBackoff, r.MaxBackoff, r.TimeoutPerAttempt, fmt.Sprintf("%s %g", r.Jitter, r.JitterFactor)}
		}))
	})
}

func limitsCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "limits", Short: "List the limits and defaults of every surface", Args: cobra.NoArgs,
		Long:    "List the built-in limits and defaults of calls, of the commands that tenet run starts, of jobs and of pipeline steps. A\ndocument may tighten them; its limits of calls apply to commands too.",
		Example: "  tenet policy limits\n  tenet policy limits -o yaml",
	}
	return cli.WithOutput(cmd, func(_ *cobra.Command, _ []string, form string) error {
		run := CommandLimits()
		run.Surface = "run"
		rows := []policy.Limits{policy.CallLimits(), run, policy.JobLimits(), policy.StepLimits()}
		return a.Print(form, rows, func(w io.Writer) { writeLimits(w, rows) })
	})
}

func writeLimits(w io.Writer, rows []policy.Limits) {
	var lines [][]any
	for _, l := range rows {
		line := func(field string, values ...any) { lines = append(lines, append([]any{l.Surface, field}, values...)) }
		line("max_attempts", l.Attempts.Default, l.Attempts.Min, l.Attempts.Max)
		line("backoff", l.Backoff.Default, l.Backoff.Min, bound(l.Backoff.Max))
		line("backoff_cap", cli.OrNone(l.Cap.Default), l.Cap.Min, bound(l.Cap.Max))
		line("backoff_multiplier", l.Multiplier.Default, l.Multiplier.Min, bound(l.Multiplier.Max))
		line("jitter", l.Jitter, "", "")
		line("jitter_factor", l.JitterFactor, 0, 1)
		line("timeout", "none", l.MinTimeout, "")
		line("max_pushback", l.Pushback, "", "")
		line("max_hedges", l.Hedges.Default, l.Hedges.Min, l.Hedges.Max)
		line("hedge delay", l.HedgeDelay.Default, l.HedgeDelay.Min, l.HedgeDelay.Max)
		line("circuit cooldown", l.Circuit.Cooldown, l.MinCooldown, "")
		line("circuit window", l.Circuit.Window, l.MinCooldown, l.MaxWindow)
	}
	cli.Table(w, "surface\tfield\tdefault\tlowest\thighest", lines, func(cells []any) []any { return cells })
}

// bound formats an upper bound. The largest value of a type is none.
func bound[T time.Duration | float64](highest T) string {
	if float64(highest) >= math.MaxInt64 {
		return "none"
	}
	return fmt.Sprint(highest)
}
