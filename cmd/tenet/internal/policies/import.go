package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/policyfile"
)

func importCommand(a *cli.App) *cobra.Command {
	cmd := cli.Group("import", "Convert another system's configuration into a policy document", `Convert another system's retry configuration into a policy document on stdout. Notes on stderr name every field that was
approximated or left out; --report writes what became of each field. The file - is stdin.`,
		importOne(a, "grpc", "a gRPC service config (retryPolicy, hedgingPolicy, retryThrottling; JSON)", policyimport.GRPC),
		importOne(a, "envoy", "an Envoy configuration (routes and clusters; YAML or JSON)", policyimport.Envoy),
		importOne(a, "istio", "Istio's VirtualServices (timeouts and retries of HTTP routes; YAML)", policyimport.Istio),
		importOne(a, "gateway-api", "Gateway API manifests (HTTPRoute, BackendTrafficPolicy; YAML)", policyimport.GatewayAPI),
		importOne(a, "resilience4j", "a Spring Boot application's resilience4j settings (YAML)", policyimport.Resilience4j),
		importOne(a, "dapr", "Dapr's Resiliency resources (YAML)", policyimport.Dapr),
		importOne(a, "aws", "the AWS SDKs' shared config file (retry_mode, max_attempts)", policyimport.AWS))
	cmd.Example = "  tenet policy import grpc service-config.json > policies.yaml"
	return cmd
}

func importOne(a *cli.App, name, what string, convert func([]byte) (policyimport.Converted, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " FILE", Short: "Convert " + what, Args: cobra.ExactArgs(1),
		Long:    "Convert " + what + " into a policy document.\nThe document goes to stdout, as YAML unless --output says otherwise. Notes on stderr name every field that was\napproximated or left out. The file - is stdin.",
		Example: fmt.Sprintf("  tenet policy import %s config.json > policies.yaml", name),
	}
	form := cli.OutputFlag(cmd)
	report := cmd.Flags().String("report", "", "file for what became of each field: a JSON list of path, fidelity (exact, approximate or lost) and message")
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		text, err := a.ReadFile(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		done := make(chan imported, 1)
		go func() { done <- importText(text, convert) }() // it takes seconds for a large input
		var in imported
		select {
		case in = <-done:
		case <-cmd.Context().Done():
			return context.Cause(cmd.Context())
		}
		if in.invalid != nil {
			return cli.Fail(cli.ExitInvalid, fmt.Errorf("%s: %w", args[0], in.invalid))
		}
		if err := printReport(a, args[0], *report, in.report); err != nil {
			return err
		}
		if in.refused != nil {
			return cli.Fail(cli.ExitInvalid, fmt.Errorf("%s: the document that it becomes is refused. If that is too large, import a part at a time; otherwise this is a bug in tenet: %w", args[0], in.refused))
		}
		return printDocument(a, *form, in.document)
	})
}

// imported is an input's document and report.
type imported struct {
	document         []byte
	report           []policyimport.Note
	invalid, refused error // the input's fault, or the document's
}

func importText(text []byte, convert func([]byte) (policyimport.Converted, error)) imported {
	converted, err := convert(text)
	if err != nil {
		return imported{invalid: err}
	}
	document, err := documentOf(converted)
	if err == nil {
		_, err = policyfile.Parse("the imported document", document, policyfile.Options{})
	}
	return imported{document: document, report: converted.Report, refused: err}
}

// printReport prints the notes that a person should read, and writes all of them to a file, if one is named.
func printReport(a *cli.App, input, file string, notes []policyimport.Note) error {
	count := map[policyimport.Fidelity]int{}
	for _, note := range notes {
		if count[note.Fidelity]++; note.Fidelity != policyimport.Exact {
			a.Note(a.Paint(a.Stderr, cli.Yellow, "note:"), "%s: %s", input, note)
		}
	}
	a.Note("note:", "%s: fields: %d exact, %d approximate, %d lost", input, count[policyimport.Exact], count[policyimport.Approximate], count[policyimport.Lost])
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(notes, "", "  ")
	if err != nil {
		return err
	}
	return cli.NotMade(file, files.Write(file, append(text, '\n')))
}

// documentOf encodes a conversion as a document.
func documentOf(c policyimport.Converted) ([]byte, error) {
	defaults := policyfile.CallDefaults{Retry: c.Defaults.Retry, Hedge: c.Defaults.Hedge, Circuit: c.Defaults.Circuit, Limit: c.Defaults.Limit}
	return policyfile.File{Defaults: policyfile.Defaults{Calls: defaults}, Budgets: c.Budgets, Policies: c.Policies}.Marshal()
}

// printDocument prints a YAML document. The format text is YAML too.
func printDocument(a *cli.App, form string, document []byte) error {
	if form == cli.FormText || form == cli.FormYAML {
		_, err := a.Stdout.Write(document)
		return err
	}
	var value any
	if err := yaml.Unmarshal(document, &value); err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return a.Print(form, json.RawMessage(text), func(io.Writer) {})
}
