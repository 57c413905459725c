package policies

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/prove"
)

func proveCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "prove FILE", Short: "Decide what can be proved of a policy document", Args: cobra.ExactArgs(1),
		Long: `Decide properties of a policy document: attempts that can never start, hedges that can never launch, breakers that can never
open, budgets that can never admit or bind, retries without delay or bound, and more; docs/prove.md lists them. Each verdict comes
with its numbers, and each violation with a counterexample that the decision core itself answered.

With --graph, calls between services are checked too: how often their retries multiply, and whose caller gives up first.

A document accepts a finding under prove.suppress, with a reason. Exits with 4 if a property is violated that the document does not
accept. Notes only state numbers. The file - is stdin.`,
		Example: "  tenet policy prove policies.yaml\n  tenet policy prove policies.yaml --graph graph.yaml --sarif prove.sarif",
	}
	graphFile := cmd.Flags().String("graph", "", "call graph whose edges name keys of the document; - is stdin")
	sarif := cmd.Flags().String("sarif", "", "also write the findings to this file as SARIF 2.1.0")
	all := cmd.Flags().Bool("all", false, "also print the properties that hold; JSON always has them")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		document, err := a.Load(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		graph, err := LoadGraph(cmd.Context(), a, *graphFile)
		if err != nil {
			return err
		}
		findings, err := prove.Document(document, graph)
		if err != nil {
			return cli.Fail(cli.ExitInvalid, err)
		}
		if err := writeSARIF(*sarif, findings); err != nil {
			return err
		}
		if err := a.Print(form, findings, func(w io.Writer) { writeFindings(a, w, findings, *all) }); err != nil {
			return err
		}
		if len(prove.Violations(findings)) > 0 {
			return cli.Exit(cli.ExitThreshold)
		}
		return nil
	})
}

// LoadGraph reads a call graph, and prints its faults to stderr. It returns nil without a path.
func LoadGraph(ctx context.Context, a *cli.App, path string) (*policyfile.Graph, error) {
	if path == "" {
		return nil, nil
	}
	text, err := a.ReadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	graph, err := policyfile.ParseGraph(path, text)
	return graph, a.Refused(err)
}

func writeSARIF(path string, findings []prove.Finding) error {
	if path == "" {
		return nil
	}
	log, err := prove.SARIF(findings)
	if err != nil {
		return err
	}
	return cli.NotMade(path, files.Write(path, append(log, '\n')))
}

func writeFindings(a *cli.App, w io.Writer, findings []prove.Finding, all bool) {
	holds, violated, accepted := 0, 0, 0
	for _, f := range findings {
		switch {
		case f.Suppressed != "":
			accepted++
		case f.Verdict == prove.Violated:
			violated++
			writeViolation(a, w, f)
		default:
			holds++
			if all {
				cli.Fprintf(w, "%s:%d:%d: %s: %s: %s\n", f.Fault.File, f.Line, f.Column, a.Paint(a.Stdout, cli.Green, string(f.Verdict)), f.Code, f.Message)
			}
		}
	}
	cli.Fprintf(w, "%d violated, %d accepted, %s\n", violated, accepted, cli.Plural(holds, "property holds", "properties hold"))
}

func writeViolation(a *cli.App, w io.Writer, f prove.Finding) {
	color := cli.Yellow
	if f.Severity == prove.Error {
		color = cli.Red
	}
	cli.Fprintf(w, "%s:%d:%d: %s: %s: %s; %s\n", f.Fault.File, f.Line, f.Column, a.Paint(a.Stdout, color, string(f.Severity)), f.Code, f.Message, f.Fault.Remedy)
	for line := range strings.SplitSeq(f.Fault.Caret(), "\n") {
		cli.Fprintf(w, "    %s\n", a.Paint(a.Stdout, cli.Faint, line))
	}
	if f.Counterexample == nil {
		return
	}
	for _, step := range f.Counterexample.Steps {
		cli.Fprintf(w, "    %s\n", step)
	}
}
