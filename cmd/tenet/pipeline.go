package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/command"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenethttp"
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
	for _, key := range set.Keys() {
		kind, name, _ := strings.Cut(key.Namespace, "/")
		switch kind {
		case "consumer":
			r.Consumers[name], _ = set.Consumer(name)
		case "producer":
			r.Producers[name], _ = set.Producer(name)
		}
	}
	return r
}

func (r pipelineResult) describe(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tNAME\tCONCURRENCY\tBATCH\tLIMIT\tTIMEOUT\tTRANSACTION\tATTEMPTS")
	line := func(kind, name string, concurrency, batch, limit int, timeout, transaction time.Duration, attempts string) {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", kind, name, concurrency, batch, orNone(limit), orNone(timeout), orNone(transaction), attempts)
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

// pipelineFlags are the flags that consumers and producers share.
type pipelineFlags struct {
	policy, deadLetter, audit string
	sink                      string
	payload, id               string
	store                     string
	ttl                       time.Duration
	replaySafe                bool
	grace                     time.Duration
	verbose, dryRun           bool
	form                      string
	changed                   func(flag string) bool
}

func addPipelineFlags(cmd *cobra.Command, f *pipelineFlags) (audit, form *string) {
	f.grace, f.ttl, f.changed = pipeline.DefaultGrace, jobTTL, cmd.Flags().Changed
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "policy document, whose changes take effect while it runs; - is stdin")
	flags.StringVar(&f.sink, "sink", "", "where transactions go: file:PATH.jsonl, postgres://…?table=…, http://…")
	flags.StringVar(&f.deadLetter, "dead-letter", "", "where transactions go that cannot be handled")
	flags.StringVar(&f.payload, "payload", "", "run one transaction, with this payload (JSON); - is stdin")
	flags.StringVar(&f.id, "id", "", "run one transaction, with this ID (default: a new one)")
	flags.StringVar(&f.store, "idempotency-store", "", "run each transaction ID once, and keep it here: sqlite:PATH, postgres://… or nats://…")
	flags.Var(&span{&f.ttl, false}, "idempotency-ttl", "how long an ID is kept after its transaction ended")
	flags.BoolVar(&f.replaySafe, "replay-safe", false, "with --idempotency-store: a transaction may run again where an earlier run was killed")
	flags.Var(&span{&f.grace, false}, "grace", "how long running transactions may go on after a signal")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "tell of every attempt on stderr")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything, say what would run, and run nothing")
	return auditFlag(cmd), outputFlag(cmd)
}

// single is the transaction of --payload and --id, or nil.
func (f *pipelineFlags) single(ctx context.Context, a *app) (*pipeline.Transaction, error) {
	if !f.changed("payload") && !f.changed("id") {
		return nil, nil
	}
	payload := []byte(f.payload)
	if f.payload == standardInput {
		var err error
		if payload, err = readAll(ctx, a.stdin); err != nil {
			return nil, err
		}
	}
	if f.changed("payload") && !json.Valid(payload) {
		return nil, usage("--payload: this is no JSON; write a value such as '{\"order\": 17}' or '\"text\"'")
	}
	if f.changed("id") && f.id == "" {
		return nil, usage("--id is empty; leave it out for a new one")
	}
	return pipeline.NewTransaction(f.id, payload), nil
}

// pipelineSetup is what a consumer or producer runs with. close ends all that was opened.
type pipelineSetup struct {
	options []pipeline.Option
	log     *slog.Logger
	closers []func() error
	ended   bool // everything is done, so that files may take their names
}

func (s *pipelineSetup) onClose(f func() error) { s.closers = append(s.closers, f) }

func (s *pipelineSetup) close() error {
	var faults []error
	for _, f := range slices.Backward(s.closers) {
		faults = append(faults, f())
	}
	return errors.Join(faults...)
}

// pipelineSet is the document of a pipeline, and the provider that follows its file.
func (a *app) pipelineSet(ctx context.Context, f *pipelineFlags, changes *policyChanges) (policy.Provider, *policy.Set, error) {
	if f.policy == "" {
		return nil, nil, usage("no document given; name it with --policy FILE")
	}
	if f.policy == standardInput && f.payload == standardInput {
		return nil, nil, usage("--policy and --payload cannot both be stdin")
	}
	return a.jobPolicies(ctx, f.policy, changes.tell)
}

// unnamed is the failure of a pipeline that the document does not name.
func unnamed(file, kind, name string, others []string) error {
	slices.Sort(others)
	known := "it has none"
	if len(others) > 0 {
		known = "it has " + strings.Join(others, ", ")
	}
	return &failure{exitNotFound, fmt.Errorf("%s names no %s %q; %s", file, kind, name, known)}
}

// setUp opens everything around an engine but its source and sink.
func (a *app) setUp(ctx context.Context, f *pipelineFlags, name string, provider policy.Provider, changes *policyChanges) (s *pipelineSetup, err error) {
	s = &pipelineSetup{log: slog.New(slog.NewTextHandler(a.overProgress(), nil))}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	var observers []observe.Observer
	if f.verbose {
		observers = append(observers, observe.Slog(s.log))
	}
	executor := retry.ExecutorOptions{
		Classes: []classify.Family{tenethttp.Classes(), command.Classes()},
		Classifiers: map[string]classify.Classifier{
			tenethttp.ClassifierName: tenethttp.Classifier(), command.Name: command.Classifier(command.Codes{}),
		},
	}
	if f.audit != "" {
		record, closeLog, err := a.openLog(ctx, f.audit)
		if err != nil {
			return s, err
		}
		s.onClose(closeLog)
		observers, executor.Journal = append(observers, record), record
		changes.follow(ctx, record, provider, s.log)
	}
	observer := observe.Multi(observers...)
	s.options = []pipeline.Option{
		pipeline.WithName(name), pipeline.WithProvider(provider), pipeline.WithGrace(f.grace), pipeline.WithLogger(s.log),
		pipeline.WithObserver(observer), pipeline.WithExecutorOptions(executor),
	}
	if f.store != "" {
		records, err := a.openRecords(ctx, "idempotency-store", f.store, true)
		if err != nil {
			return s, err
		}
		s.onClose(records.close)
		guard, err := idempotency.NewGuard(records, idempotency.GuardOptions{
			TTL: f.ttl, ReplaySafe: f.replaySafe, Observer: observer, Journal: executor.Journal,
		})
		if err != nil {
			return s, err
		}
		s.options = append(s.options, pipeline.WithGuard(guard))
	}
	return s, nil
}
