package pipelines

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/monitor"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/pipeline"
)

// pipelineFlags are the flags that consumers and producers share.
type pipelineFlags struct {
	document                 cli.Document
	listen                   string
	source, sink, deadLetter string // source is --source or --input
	payload, id              string
	store                    string
	ttl                      time.Duration
	replaySafe               bool
	grace                    time.Duration
	verbose, dryRun          bool
	exitZero                 bool
	otlp                     *string
	audit, form, limits      *string
	shadow                   *string
	flags                    *pflag.FlagSet
}

// add adds the flags to a command. from is the name of the flag for the source, and usage its usage text.
func (f *pipelineFlags) add(cmd *cobra.Command, from, usage string) {
	f.audit, f.form, f.limits = open.DecisionLogFlag(cmd), cli.OutputFlag(cmd), open.LimitsFlag(cmd)
	f.shadow = open.ShadowFlag(cmd)
	flags := cmd.Flags()
	f.grace, f.ttl, f.flags = pipeline.DefaultGrace, open.JobTTL, flags
	f.document.Flags(cmd, "policy document; changes take effect during the run")
	flags.StringVar(&f.source, from, "", usage)
	flags.StringVar(&f.sink, "sink", "", "where transactions go: "+open.UseSink.Forms())
	flags.StringVar(&f.deadLetter, "dead-letter", "", "sink for transactions that fail for good")
	flags.StringVar(&f.payload, "payload", "", "run one transaction, with this payload (JSON); - is stdin")
	flags.StringVar(&f.id, "id", "", "run one transaction, with this ID (default: a new one)")
	flags.StringVar(&f.store, "idempotency-store", "", "run each transaction ID once, and keep the IDs here: "+open.UseRecords.Forms())
	flags.Var(cli.Duration(&f.ttl), "idempotency-ttl", "how long an ID is kept after its transaction ended")
	flags.BoolVar(&f.replaySafe, "replay-safe", false, "with --idempotency-store: a transaction may run again if an earlier run was killed")
	flags.Var(cli.Duration(&f.grace), "grace", "how long running transactions may continue after a signal")
	flags.StringVar(&f.listen, "listen", "", "address to serve health and metrics on, for example :9090")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log every attempt to stderr")
	f.otlp = monitor.OtlpFlag(cmd)
	cli.ExitZeroFlag(cmd, &f.exitZero)
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything and print what would run, without running it")
}

// single returns the transaction of --payload and --id, or nil.
func (f *pipelineFlags) single(ctx context.Context, a *cli.App) (*pipeline.Transaction, error) {
	if !f.flags.Changed("payload") && !f.flags.Changed("id") {
		return nil, nil
	}
	payload := []byte(f.payload)
	if f.payload == cli.StandardInput {
		var err error
		if payload, err = a.ReadFile(ctx, f.payload); err != nil {
			return nil, err
		}
	}
	if f.flags.Changed("payload") && !json.Valid(payload) {
		return nil, cli.Usagef("--payload: this is not valid JSON; write a value such as '{\"order\": 17}' or '\"text\"'")
	}
	if f.flags.Changed("id") && f.id == "" {
		return nil, cli.Usagef("--id is empty; leave it out for a new one")
	}
	return pipeline.NewTransaction(f.id, payload), nil
}

// places holds the source and the sinks of the flags. A place without a flag is nil.
type places struct {
	one                 *pipeline.Transaction // instead of from
	from, sink, letters *open.Place
}

// places parses the flags. from is the name of the flag for the source.
func (f *pipelineFlags) places(ctx context.Context, a *cli.App, from string) (p places, err error) {
	if err = cli.CheckNeeds(f.flags, "idempotency-store", "idempotency-ttl", "replay-safe"); err != nil {
		return p, err
	}
	if p.one, err = f.single(ctx, a); err != nil {
		return p, err
	}
	switch {
	case p.one != nil && f.source != "":
		return p, cli.Usagef("--%s cannot be combined with --payload or --id, which run one transaction", from)
	case p.one == nil && f.source == "":
		return p, cli.Usagef("no %[1]s given; write --%[1]s file:orders.jsonl, or --payload JSON for one transaction", from)
	}
	if p.from, err = open.ParsePlace(open.Ref{Flag: from, URL: f.source, Use: open.UseSource}); err != nil {
		return p, err
	}
	if p.sink, err = open.ParsePlace(open.Ref{Flag: "sink", URL: f.sink, Use: open.UseSink}); err != nil {
		return p, err
	}
	if p.letters, err = open.ParsePlace(open.Ref{Flag: "dead-letter", URL: f.deadLetter, Use: open.UseSink}); err != nil {
		return p, err
	}
	for _, to := range []*open.Place{p.sink, p.letters} {
		if p.from.SameFile(to) {
			return p, cli.Usagef("--%s %s: this is the file of --%s; name another", to.Flag, to.URL, from)
		}
	}
	if p.sink.SameFile(p.letters) {
		return p, cli.Usagef("--dead-letter %s: this is the file of --sink; name another", f.deadLetter)
	}
	return p, nil
}
