package pipelines

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/policy"
)

func pipelineCommand(a *cli.App) *cobra.Command {
	cmd := cli.Group("pipeline", "Check the consumers and producers of policy documents", `Check the consumers and producers of policy documents. They run with "tenet consume" and "tenet produce".`, pipelineCheckCommand(a))
	cmd.Example = "  tenet pipeline check policies.yaml"
	return cmd
}

// pipelineResult holds the pipelines of a document, with every default filled in.
type pipelineResult struct {
	File      string                     `json:"file"`
	Consumers map[string]policy.Consumer `json:"consumers"`
	Producers map[string]policy.Producer `json:"producers"`
	Revision  string                     `json:"revision"`
}

func pipelineCheckCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check FILE…", Short: "Report every fault of documents, and show their pipelines", Args: cli.OneStdin,
		Long: `Read policy documents and report every fault with its place and the remedy. Show the consumers and producers of valid
documents with every default filled in. The file - is stdin; --policy FILE is another way to name a document.
Exits with 3 if a document is invalid, and with 5 if one has no pipelines.`,
		Example: "  tenet pipeline check policies.yaml\n  tenet pipeline check policies.yaml -o json",
	}
	file := cli.DocumentFlag(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, files []string, form string) error {
		if len(files) == 0 && *file != "" {
			files = []string{*file}
		}
		if len(files) == 0 {
			return cli.Usagef("no document given; write: tenet pipeline check FILE")
		}
		var results []pipelineResult
		var failed error
		for _, file := range files {
			document, err := a.Load(cmd.Context(), file)
			if err == nil {
				results = append(results, pipelinesOf(file, document.Set))
				continue
			}
			if f, ok := errors.AsType[*cli.Failure](err); !ok || f.Code != cli.ExitInvalid {
				return err
			}
			failed = err // the other documents are checked all the same
		}
		for _, r := range results {
			if len(r.Consumers)+len(r.Producers) == 0 && failed == nil {
				failed = cli.Fail(cli.ExitNotFound, fmt.Errorf("%s has neither consumers nor producers", r.File))
			}
		}
		if len(files) == 1 && failed != nil {
			return failed
		}
		var shown any = results
		if len(files) == 1 {
			shown = results[0]
		}
		return errors.Join(a.Print(form, shown, func(w io.Writer) {
			for _, r := range results {
				r.describe(w)
			}
		}), failed)
	})
}

func pipelinesOf(file string, set *policy.Set) pipelineResult {
	r := pipelineResult{File: file, Consumers: map[string]policy.Consumer{}, Producers: map[string]policy.Producer{}, Revision: set.Revision()}
	for _, name := range Named(set, "consumer") {
		r.Consumers[name], _ = set.Consumer(name)
	}
	for _, name := range Named(set, "producer") {
		r.Producers[name], _ = set.Producer(name)
	}
	return r
}

// Named lists the consumers or producers of a document.
func Named(set *policy.Set, kind string) (names []string) {
	for _, key := range set.Keys() {
		if of, name, _ := strings.Cut(key.Namespace, "/"); of == kind && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (r pipelineResult) describe(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	cli.Fprintln(t, cli.Safe("KIND\tNAME\tCONCURRENCY\tBATCH\tLIMIT\tTIMEOUT\tTRANSACTION\tATTEMPTS"))
	line := func(cells ...any) { cli.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", cells...) }
	for _, name := range slices.Sorted(maps.Keys(r.Consumers)) {
		c := r.Consumers[name]
		l, s := c.Loop, c.Steps
		line("consumer", name, l.Concurrency.Value, l.Batch.Size, cli.OrNone(l.Limit), cli.OrNone(l.Timeout), cli.OrNone(l.TransactionTimeout), fmt.Sprintf("fetch %d, process %d, success %d, exception %d",
			s.Fetch.Retry.MaxAttempts, s.Process.Retry.MaxAttempts, s.Success.Retry.MaxAttempts, s.Exception.Retry.MaxAttempts))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Producers)) {
		p := r.Producers[name]
		l, s := p.Loop, p.Steps
		line("producer", name, l.Concurrency.Value, l.Batch.Size, cli.OrNone(l.Limit), cli.OrNone(l.Timeout), cli.OrNone(l.TransactionTimeout), fmt.Sprintf("produce %d, success %d, exception %d",
			s.Produce.Retry.MaxAttempts, s.Success.Retry.MaxAttempts, s.Exception.Retry.MaxAttempts))
	}
	_ = t.Flush()
}
