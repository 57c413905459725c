package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/policy"
)

func (a *app) pipelineCommand() *cobra.Command {
	cmd := group("pipeline", "Check the consumers and producers of policy documents", `Check the consumers and producers of policy documents. They run with "tenet consume" and "tenet produce".`, a.pipelineCheckCommand())
	cmd.Example = "  tenet pipeline check --policy policies.yaml"
	return cmd
}

// pipelineResult are the pipelines of a document, with every default filled in.
type pipelineResult struct {
	Consumers map[string]policy.Consumer `json:"consumers"`
	Producers map[string]policy.Producer `json:"producers"`
	Revision  string                     `json:"revision"`
}

func (a *app) pipelineCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check --policy FILE", Short: "Report every fault of a document, and show its pipelines", Args: cobra.NoArgs,
		Long: `Read a policy document and report everything that is wrong with it, each with its place and the remedy, or else show
its consumers and producers with every default filled in. Exits with 3 if the document is invalid, and with 5 if it
has no pipelines.`,
		Example: "  tenet pipeline check --policy policies.yaml\n  tenet pipeline check --policy policies.yaml -o json",
	}
	file := documentFlag(cmd)
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		if *file == "" {
			return usage("no document given; name it with --policy FILE")
		}
		document, err := a.load(cmd.Context(), *file)
		if err != nil {
			return err
		}
		r := pipelinesOf(document.Set)
		if len(r.Consumers)+len(r.Producers) == 0 {
			return &failure{exitNotFound, fmt.Errorf("%s has neither consumers nor producers", *file)}
		}
		return a.print(*form, r, r.describe)
	})
	return cmd
}

func pipelinesOf(set *policy.Set) pipelineResult {
	r := pipelineResult{Consumers: map[string]policy.Consumer{}, Producers: map[string]policy.Producer{}, Revision: set.Revision()}
	for _, name := range namedPipelines(set, "consumer") {
		r.Consumers[name], _ = set.Consumer(name)
	}
	for _, name := range namedPipelines(set, "producer") {
		r.Producers[name], _ = set.Producer(name)
	}
	return r
}

// namedPipelines lists the consumers or producers of a document.
func namedPipelines(set *policy.Set, kind string) (names []string) {
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
	fprintln(t, safe("KIND\tNAME\tCONCURRENCY\tBATCH\tLIMIT\tTIMEOUT\tTRANSACTION\tATTEMPTS"))
	line := func(kind, name string, concurrency, batch, limit int, timeout, transaction time.Duration, attempts string) {
		fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", kind, name, concurrency, batch, orNone(limit), orNone(timeout), orNone(transaction), attempts)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Consumers)) {
		c := r.Consumers[name]
		l, s := c.Loop, c.Steps
		line("consumer", name, l.Concurrency.Value, l.Batch.Size, l.Limit, l.Timeout, l.TransactionTimeout, fmt.Sprintf("fetch %d, process %d, success %d, exception %d",
			s.Fetch.Retry.MaxAttempts, s.Process.Retry.MaxAttempts, s.Success.Retry.MaxAttempts, s.Exception.Retry.MaxAttempts))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Producers)) {
		p := r.Producers[name]
		l, s := p.Loop, p.Steps
		line("producer", name, l.Concurrency.Value, l.Batch.Size, l.Limit, l.Timeout, l.TransactionTimeout, fmt.Sprintf("produce %d, success %d, exception %d",
			s.Produce.Retry.MaxAttempts, s.Success.Retry.MaxAttempts, s.Exception.Retry.MaxAttempts))
	}
	_ = t.Flush()
}

func orNone[T comparable](v T) string {
	var none T
	if v == none {
		return "none"
	}
	return fmt.Sprint(v)
}
