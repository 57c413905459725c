package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := group("policy", "Check, show and import policy documents", "Check, show and import policy documents.",
		a.checkCommand(), a.showCommand(), a.delaysCommand(), a.schemaCommand(), a.catalogCommand(), a.limitsCommand(), a.importCommand())
	cmd.Example = `  tenet policy check policies.yaml
  tenet policy show user-service.GetUser --policy policies.yaml`
	return cmd
}

// checkResult is what "policy check" says of a file.
type checkResult struct {
	File     string        `json:"file"`
	Valid    bool          `json:"valid"`
	Keys     []string      `json:"keys"`
	Revision string        `json:"revision"`
	Faults   []faultResult `json:"faults"`
	Warnings []faultResult `json:"warnings"`
}

type faultResult struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
}

func (a *app) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check FILE…", Short: "Report every fault of policy documents", Args: cobra.MinimumNArgs(1),
		Long: `Read policy documents and report everything that is wrong with them, each with its place and the remedy.
Values beyond a limit are warnings: they are clamped. So are classifiers and classes of errors that only work where a program
registers them; the warning names the package that brings them. - is stdin. Exits with 3 if a document is invalid.`,
		Example: "  tenet policy check policies.yaml\n  tenet policy check -o json *.yaml",
	}
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, files []string) error {
		results := make([]checkResult, 0, len(files))
		invalid := false
		for _, file := range files {
			r, err := a.check(cmd.Context(), file)
			if err != nil {
				return err
			}
			invalid = invalid || !r.Valid
			results = append(results, r)
		}
		err := a.print(*form, results, func(w io.Writer) { a.writeChecks(w, results) })
		if err == nil && invalid {
			err = exit(exitInvalid)
		}
		return err
	})
	return cmd
}

func (a *app) check(ctx context.Context, file string) (checkResult, error) {
	r := checkResult{File: file, Keys: []string{}, Faults: []faultResult{}, Warnings: []faultResult{}}
	text, err := a.readFile(ctx, file)
	if err != nil {
		return r, err
	}
	document, err := policyfile.Parse(file, text, policyfile.Options{})
	refused, ok := errors.AsType[*policyfile.Error](err)
	switch {
	case ok:
		r.add(refused.Faults)
		a.tellFaults(refused.Faults)
		return r, nil
	case err != nil:
		return r, err
	}
	warnings := slices.Concat(document.Warnings, needsCode(file, document))
	r.add(warnings)
	a.tellFaults(warnings)
	r.Valid, r.Revision = true, document.Set.Revision()
	for _, key := range document.Set.Keys() {
		r.Keys = append(r.Keys, key.String())
	}
	return r, nil
}

func (r *checkResult) add(faults []policyfile.Fault) {
	for _, f := range faults {
		list := &r.Faults
		if f.Warning {
			list = &r.Warnings
		}
		*list = append(*list, faultResult{f.Line, f.Column, f.Path, f.Problem, f.Remedy})
	}
}

func (a *app) writeChecks(w io.Writer, results []checkResult) {
	for _, r := range results {
		if !r.Valid {
			fprintf(w, "%s: %s, %s\n", r.File, a.paint(a.stdout, red, "invalid"), count(len(r.Faults), "fault"))
			continue
		}
		fprintf(w, "%s: %s, %s", r.File, a.paint(a.stdout, green, "valid"), count(len(r.Keys), "key"))
		if len(r.Warnings) > 0 {
			fprintf(w, ", %s", count(len(r.Warnings), "warning"))
		}
		fprintf(w, ", revision %.12s\n", r.Revision)
	}
}

// showResult is what "policy show" says of a key.
type showResult struct {
	Key      string         `json:"key"`
	Policy   *policy.Policy `json:"policy"`
	Source   policy.Source  `json:"source"`
	Clamped  []string       `json:"clamped"`
	Revision string         `json:"revision"`
}

func (a *app) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show KEY --policy FILE", Short: "Show the policy of a key, with every default filled in", Args: cobra.ExactArgs(1),
		Long: `Show the policy that a document gives to a key: every field with its value in force and where that comes from.
Keys of jobs are job/QUEUE.TYPE, those of pipeline steps consumer/NAME.STEP and producer/NAME.STEP. A job type, a queue, a
consumer, a producer or NAME.STEP alone will do where no call has that key.

Keys that begin with "run." have the limits and defaults of tenet run. To see the policy that a command gets under another key,
use tenet run --dry-run.`,
		Example: "  tenet policy show user-service.GetUser --policy policies.yaml\n  tenet policy show job/emails.email:send --policy policies.yaml -o json",
	}
	file := documentFlag(cmd)
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		document, p, err := a.find(cmd.Context(), *file, args[0])
		if err != nil {
			return err
		}
		r := showResult{Key: p.Key.String(), Policy: p, Source: p.Meta.Source, Clamped: p.Meta.Clamped, Revision: p.Meta.Revision}
		if r.Clamped == nil {
			r.Clamped = []string{}
		}
		return a.print(*form, r, func(w io.Writer) { a.describePolicy(w, p, document) })
	})
	return cmd
}

func documentFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("policy", "", "policy document to use; - is stdin")
}

// find loads a document and looks a key up in it.
func (a *app) find(ctx context.Context, file, name string) (*policyfile.Document, *policy.Policy, error) {
	switch {
	case file == "":
		return nil, nil, usage("no document given; name it with --policy FILE")
	case policy.ParseKey(name).IsZero():
		return nil, nil, usage("the key is empty")
	}
	limits := policy.CallLimits()
	if policy.ParseKey(name).Namespace == runNamespace {
		limits = commandLimits()
	}
	document, err := a.loadWithin(ctx, file, limits)
	if err != nil {
		return nil, nil, err
	}
	key := document.Set.Find(name)
	if !document.Set.Named(key) {
		a.warn("%s does not name %s; its defaults apply", file, key)
	}
	p, err := policyOf(document.Set, key)
	return document, p, err
}

// describePolicy writes a policy as a table of its fields, with their origins where the document is known.
func (a *app) describePolicy(w io.Writer, p *policy.Policy, document *policyfile.Document) {
	fprintf(w, "%s  %s\n", a.paint(a.stdout, bold, p.Key.String()), a.paint(a.stdout, faint, "source "+string(p.Meta.Source)))
	if p.Meta.Revision != "" {
		fprintf(w, "%s\n", a.paint(a.stdout, faint, "revision "+p.Meta.Revision))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	eachField("", reflect.ValueOf(*p), func(path string, v reflect.Value) {
		origin := safe("")
		if document != nil {
			origin = "\tbuilt in"
			if from, line := document.Origin(p.Key, path); from != "" {
				origin = textf("\t%s, line %d", from, line)
			}
		}
		fprintf(table, "  %s\t%s%s\n", path, show(v), origin)
	})
	_ = table.Flush() // w is a buffer
	for _, path := range p.Meta.Clamped {
		fprintf(w, "%s %s was outside the limits\n", a.paint(a.stdout, yellow, "clamped:"), path)
	}
}

// eachField calls f for every field that has a value, with its document path. What is off is left out as a whole.
func eachField(prefix string, v reflect.Value, f func(path string, v reflect.Value)) {
	for _, field := range fields.Of(v.Type()) {
		value, path := v.Field(field.Index), prefix+field.Name
		off := path == "hedge" && !value.FieldByName("Enabled").Bool() || path == "circuit" && value.FieldByName("Kind").String() == ""
		switch {
		case off, value.IsZero():
		case value.Kind() == reflect.Struct:
			eachField(path+".", value, f)
		default:
			f(path, value)
		}
	}
}

func show(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return value.String()
	case []policy.Class:
		names := make([]string, len(value))
		for i, c := range value {
			names[i] = string(c)
		}
		return strings.Join(names, ", ")
	default:
		return fmt.Sprint(value)
	}
}

// fieldOf is the value of a retry field by its path, for messages.
func fieldOf(r policy.Retry, path string) string {
	v := reflect.ValueOf(r)
	for _, f := range fields.Of(v.Type()) {
		if "retry."+f.Name == path {
			return show(v.Field(f.Index))
		}
	}
	return "its value"
}

func (a *app) schemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of policy documents", Args: cobra.NoArgs,
		Long:    "Print the JSON Schema (draft 2020-12) of policy documents, for editors and other checkers.",
		Example: "  tenet policy schema > tenet.schema.json",
	}
	form := outputFlag(cmd)
	cmd.RunE = runE(func(*cobra.Command, []string) error {
		schema := policyfile.Schema()
		return a.print(*form, json.RawMessage(schema), func(w io.Writer) { fprintln(w, safe(strings.TrimSpace(string(schema)))) })
	})
	return cmd
}

// catalogResult is a row of the catalog.
type catalogResult struct {
	Category policy.Category `json:"category"`
	Code     string          `json:"code"`
	Retry    policy.Retry    `json:"retry"`
}

func (a *app) catalogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "catalog", Short: "List the operation categories and their defaults", Args: cobra.NoArgs,
		Long:    "List the operation categories that policies can take their defaults from (category: NATS_PUBLISH).",
		Example: "  tenet policy catalog\n  tenet policy catalog -o jsonl",
	}
	form := outputFlag(cmd)
	cmd.RunE = runE(func(*cobra.Command, []string) error {
		rows := make([]catalogResult, 0, len(policy.Categories()))
		for _, c := range policy.Categories() {
			r, _ := c.Policy()
			rows = append(rows, catalogResult{c, c.Code(), r})
		}
		return a.print(*form, rows, func(w io.Writer) {
			table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fprintln(table, safe("category\tcode\tattempts\tbackoff\tcap\ttimeout\tjitter"))
			for _, row := range rows {
				r := row.Retry
				fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s %g\n", row.Category, row.Code, r.MaxAttempts, r.InitialBackoff, r.MaxBackoff, r.TimeoutPerAttempt, r.Jitter, r.JitterFactor)
			}
			_ = table.Flush()
		})
	})
	return cmd
}

func (a *app) limitsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "limits", Short: "List the limits and defaults of every surface", Args: cobra.NoArgs,
		Long:    "List the built-in limits and defaults of calls, of the commands that tenet run starts, of jobs and of pipeline steps. A\ndocument may tighten them; what it says of calls holds for commands too.",
		Example: "  tenet policy limits\n  tenet policy limits -o yaml",
	}
	form := outputFlag(cmd)
	cmd.RunE = runE(func(*cobra.Command, []string) error {
		run := commandLimits()
		run.Surface = "run"
		rows := []policy.Limits{policy.CallLimits(), run, policy.JobLimits(), policy.StepLimits()}
		return a.print(*form, rows, func(w io.Writer) { writeLimits(w, rows) })
	})
	return cmd
}

func writeLimits(w io.Writer, rows []policy.Limits) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fprintln(table, safe("surface\tfield\tdefault\tlowest\thighest"))
	for _, l := range rows {
		line := func(field string, values ...any) {
			fprintf(table, "%s\t%s", l.Surface, field)
			for _, v := range values {
				fprintf(table, "\t%v", v)
			}
			fprintln(table)
		}
		line("max_attempts", l.Attempts.Default, l.Attempts.Min, l.Attempts.Max)
		line("backoff", l.Backoff.Default, l.Backoff.Min, bound(l.Backoff.Max))
		line("backoff_cap", capOf(l), l.Cap.Min, bound(l.Cap.Max))
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
	_ = table.Flush()
}

// capOf is the default cap; steps have none.
func capOf(l policy.Limits) string {
	if l.Cap.Default == 0 {
		return "none"
	}
	return l.Cap.Default.String()
}

// bound is an upper bound; the largest value of a type is none.
func bound[T time.Duration | float64](highest T) string {
	if float64(highest) >= math.MaxInt64 {
		return "none"
	}
	return fmt.Sprint(highest)
}
