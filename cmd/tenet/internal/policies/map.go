package policies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// MapCommand returns "tenet map".
func MapCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "map --graph FILE|--audit URL", Short: "Multiply attempts along a call graph", Args: cobra.NoArgs,
		Long: `Multiply attempts along a declared call graph: how many requests one request becomes on each service if every attempt fails
(worst), what budgets leave of that in the long run (budgets), and the mean for the declared shares of failures (expected).
An edge of the graph states its attempts, or names a key of the policy document. docs/prove.md describes the file.

With --audit, the graph that an audit log recorded: which calls ran inside the attempts of which work, how many on average, and how many
attempts they took. The recorded means are all three numbers. Only calls of the same process know their parent.`,
		Example: "  tenet map --graph graph.yaml --policy policies.yaml\n  tenet map --graph graph.yaml --svg graph.svg -o json\n  tenet map --audit audit.jsonl",
	}
	graphFile := cmd.Flags().String("graph", "", "call graph; - is stdin")
	file := cli.DocumentFlag(cmd)
	log := cmd.Flags().String("audit", "", "audit log, a URL or a file, in place of a graph")
	cli.ExplicitFlags(cmd, "audit")
	svg := cmd.Flags().String("svg", "", "also draw the graph into this SVG file")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) error {
		switch {
		case (*graphFile == "") == (*log == ""):
			return cli.Usagef("name either a call graph with --graph FILE or an audit log with --audit URL")
		case *log != "" && cli.Given(cmd, "policy"):
			return cli.Usagef("--policy has no effect with --audit, which reads the attempts from the log: leave it out")
		}
		read := func() (*amplify.Map, error) { return mapOf(cmd.Context(), a, *graphFile, *file) }
		if *log != "" {
			read = func() (*amplify.Map, error) { return recordedMap(cmd.Context(), a, *log) }
		}
		m, err := read()
		if err != nil {
			return err
		}
		if *svg != "" {
			if err := cli.NotMade(*svg, files.Write(*svg, m.SVG())); err != nil {
				return err
			}
		}
		return a.Print(form, m, func(w io.Writer) { writeMap(w, m) })
	})
}

// mapOf multiplies along a graph. The document is needed only if an edge names a key.
func mapOf(ctx context.Context, a *cli.App, graphFile, file string) (*amplify.Map, error) {
	graph, err := LoadGraph(ctx, a, graphFile)
	if err != nil {
		return nil, err
	}
	var document *policyfile.Document
	var budgets map[string]policy.Budget
	if file != "" {
		if document, err = a.Load(ctx, file); err != nil {
			return nil, err
		}
		budgets = document.Set.Budgets()
	}
	m, err := amplify.New(graph, budgets, func(name string) (amplify.Work, error) {
		if document == nil {
			return amplify.Work{}, fmt.Errorf("the edge names key %q: give the document with --policy FILE", name)
		}
		key := document.Set.Find(name)
		if !document.Set.Named(key) {
			return amplify.Work{}, fmt.Errorf("%s has no policy for key %q; add one, or give attempts in place of the key", file, name)
		}
		p := cli.PolicyOf(document.Set, key)
		return amplify.Work{Policy: p, Within: p.Retry.OverallTimeout}, nil
	})
	if err != nil {
		return nil, cli.Fail(cli.ExitInvalid, err)
	}
	return m, nil
}

// recordedMap reads from an audit log which calls ran inside which, and how many attempts they took.
func recordedMap(ctx context.Context, a *cli.App, url string) (*amplify.Map, error) {
	var calls []amplify.Recorded
	err := open.WithAuditLog(ctx, a, url, func(log *open.AuditLog) error {
		list, unreadable, err := audit.CallGraph(ctx, log, audit.Spill{})
		log.WarnLeftOut(a, unreadable)
		for _, c := range list {
			calls = append(calls, amplify.Recorded{Parent: c.Parent, Key: c.Key, Calls: float64(c.Calls), Attempts: float64(c.Attempts)})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(calls) == 0 {
		return nil, cli.Fail(cli.ExitNotFound, errors.New("the audit log holds no call that has ended: check its address"))
	}
	m, err := amplify.FromRecord(calls)
	if err != nil {
		return nil, cli.Fail(cli.ExitInvalid, err)
	}
	return m, nil
}

func writeMap(w io.Writer, m *amplify.Map) {
	cli.Table(w, "from\tto\tkey\tcalls\tattempts\tworst\tbudgets\texpected\tafter budgets", m.Edges, func(e amplify.Edge) []any {
		return append([]any{e.From, e.To, e.Key, e.Calls, number(e.Attempts.Worst)}, columns(e.Requests)...)
	})
	cli.Fprintln(w)
	nodes := slices.Concat(m.Nodes, []amplify.Node{{Name: "highest amplification", Requests: m.Amplification}})
	cli.Table(w, "node\twithout retries\tworst\tbudgets\texpected\tafter budgets", nodes, func(n amplify.Node) []any {
		return append([]any{n.Name, number(n.Requests.Plain)}, columns(n.Requests)...)
	})
}

func columns(r amplify.Requests) []any {
	return []any{number(r.Worst), number(r.Budgeted), number(r.Expected), number(r.ExpectedBudgeted)}
}

// number writes whole numbers exactly and others with four digits.
func number(f float64) string {
	if f == math.Trunc(f) && f < 1e15 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.4g", f)
}
