package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	httpsink "github.com/tenetdev/tenet/connector/http"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

type consumeFlags struct {
	pipelineFlags
	taskFlags
	source, task string
}

func (a *app) consumeCommand() *cobra.Command {
	f := &consumeFlags{taskFlags: taskFlags{killGrace: defaultKillGrace}}
	cmd := &cobra.Command{
		Use: "consume --policy FILE NAME --source URL --task TASK", Short: "Process the transactions of a source", Args: cobra.ExactArgs(1),
		Long: `Fetch transactions from a source and have a task process them, under the consumer NAME of a policy document, whose
changes take effect between batches.

Sources:
  file:PATH.jsonl, file:PATH.csv   one transaction for each line; goes on where the last run ended
                                   (?follow=true, forget=true, offsets=PATH, envelope=true, format=jsonl|csv)
  nats://HOST/STREAM?consumer=…    a JetStream consumer
  amqp://HOST/QUEUE                a RabbitMQ queue
  postgres://HOST/DB?table=…       a table that is a queue; with &consumer=NAME an outbox that is followed
  jobs:STORE-URL?queue=…           stored jobs of a queue, for example jobs:sqlite:jobs.db?queue=mail

Tasks:
  exec:COMMAND   run by sh for every attempt, with the payload on stdin and TENET_TRANSACTION_ID and TENET_ATTEMPT
                 in its environment. Exit code 0 is success; others are failures that are retried, or final where
                 --retry-exit does not list them. With --sink, what it prints is passed on; else it goes to stderr
  http:URL       POST the payload, with the ID as Idempotency-Key. 408, 429 and 5xx are retried, other 4xx are final.
                 With --sink, the answer's body is passed on
  sink           pass the payload on to --sink

What fails for good goes to --dead-letter, or else comes again later. Sinks take the same URLs as sources, and
http://…; a file sink gets its name when everything is done (?append=true, replace=true), one for dead letters is
appended to; jobs need a type (jobs:STORE-URL?queue=…&type=…), and as dead letters go on after the attempts that were
spent, where the document has a policy for them.

--payload or --id run one transaction without a source; the exit code is then 0 only if it was processed, whatever
became of it otherwise.

SIGTERM and Ctrl-C stop fetching and let running transactions finish for --grace; what is left is cancelled and given
back. A second signal cancels at once. --audit records every decision before it takes effect. With
--idempotency-store a transaction ID that has ended before is not run again.

Exit codes: 0 done; 1 a transaction failed, without a handler or dead letter, or the run could not go on; 2 usage;
3 invalid document; 5 the document has no such consumer; 130 and 143 stopped by SIGINT or SIGTERM.`,
		Example: `  tenet consume --policy policies.yaml orders --source file:orders.jsonl --task exec:./charge.sh --dead-letter file:dead.jsonl
  tenet consume --policy policies.yaml orders --source 'postgres://localhost/shop?table=queue' --task http://localhost:8080/orders
  tenet consume --policy policies.yaml orders --source 'postgres://localhost/shop?table=outbox&consumer=mail' --task sink --sink amqp://localhost/mail
  tenet consume --policy policies.yaml orders --payload '{"order": 17}' --id order-17 --task exec:./charge.sh`,
	}
	audit, form := addPipelineFlags(cmd, &f.pipelineFlags)
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "where transactions come from")
	flags.StringVar(&f.task, "task", "", "what is done with them: exec:COMMAND, http:URL or sink")
	flags.StringVar(&f.retryExit, "retry-exit", "", "exit codes that an exec task is retried after, such as 75,100-110 (default: all)")
	flags.Var(&span{&f.killGrace, false}, "kill-grace", "how long an exec task may take to end after SIGTERM")
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		f.audit, f.form = *audit, *form
		return a.consume(cmd.Context(), f, args[0])
	})
	return cmd
}

// consumePlan is what a consumer's flags say.
type consumePlan struct {
	task                  taskSpec
	source, sink, letters *place
	one                   *pipeline.Transaction
}

func (a *app) planConsume(ctx context.Context, f *consumeFlags) (p consumePlan, err error) {
	if p.task, err = parseTask(f.task, f.sink); err != nil {
		return p, err
	}
	if p.one, err = f.single(ctx, a); err != nil {
		return p, err
	}
	switch {
	case p.one != nil && f.source != "":
		return p, usage("--source does not go with --payload or --id, which run one transaction")
	case p.one == nil && f.source == "":
		return p, usage("no source given; write --source %s", "file:orders.jsonl, or --payload JSON for one transaction")
	}
	if p.source, err = optionalPlace("source", f.source, fileSourceParameters); err != nil {
		return p, err
	}
	if p.source != nil && p.source.kind == placeHTTP {
		return p, usage("--source %s: HTTP can only be written to", f.source)
	}
	p.sink, p.letters, err = f.sinks()
	return p, err
}

// sinks are the places of --sink and --dead-letter, nil where they are not given.
func (f *pipelineFlags) sinks() (sink, letters *place, err error) {
	if sink, err = optionalPlace("sink", f.sink, fileSinkParameters); err != nil {
		return nil, nil, err
	}
	letters, err = optionalPlace("dead-letter", f.deadLetter, fileSinkParameters)
	return sink, letters, err
}

func optionalPlace(flag, text string, parameters []string) (*place, error) {
	if text == "" {
		return nil, nil
	}
	p, err := parsePlace(flag, text, parameters)
	return &p, err
}

// consume is "tenet consume" behind its flags.
func (a *app) consume(ctx context.Context, f *consumeFlags, name string) (err error) {
	changes := &policyChanges{}
	provider, set, err := a.pipelineSet(ctx, &f.pipelineFlags, changes)
	if err != nil {
		return err
	}
	if closer, ok := provider.(io.Closer); ok {
		defer func() { err = errors.Join(err, closer.Close()) }()
	}
	of, ok := set.Consumer(name)
	if !ok {
		return unnamed(f.policy, "consumer", name, slices.Collect(maps.Keys(pipelinesOf(set).Consumers)))
	}
	plan, err := a.planConsume(ctx, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.print(formText, nil, func(w io.Writer) {
			fmt.Fprintf(w, "would consume %s as %s with %d at once\n", orText(f.source, "one transaction"), name, of.Loop.Concurrency.Value)
		})
	}
	s, err := a.setUp(ctx, &f.pipelineFlags, name, provider, changes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	f.timeout = longest(of.Steps.Process, of.Steps.Success, of.Steps.Exception)
	sink, err := a.openSinks(ctx, s, plan.sink, plan.letters, sinkOptions{timeout: f.timeout, set: set})
	if err != nil {
		return err
	}
	task, closeTask, err := a.task(plan.task, f.taskFlags, sink)
	if err != nil {
		return err
	}
	s.onClose(closeTask)
	if plan.one != nil {
		return a.consumeOne(ctx, f, s, plan.one, task, of)
	}
	source, err := a.openSource(ctx, s, *plan.source)
	if err != nil {
		return err
	}
	consumer := pipeline.NewConsumer(source, task, of, s.options...)
	summary, err := a.runEngine(ctx, s, consumer, f.grace, consumer.Run)
	return a.finish(ctx, f.form, summary, err)
}

// consumeOne runs one transaction, once.
func (a *app) consumeOne(ctx context.Context, f *consumeFlags, s *pipelineSetup, t *pipeline.Transaction, task pipeline.Task, of policy.Consumer) error {
	var o only
	consumer := pipeline.NewConsumer(&single{t}, task, of, append(s.options, pipeline.WithEnded(o.note))...)
	summary, err := a.runEngine(ctx, s, consumer, f.grace, consumer.Run)
	if err == nil {
		err = o.verdict()
	}
	return a.finish(ctx, f.form, summary, err)
}

// single is a source of one transaction, which it does not take back.
type single struct{ t *pipeline.Transaction }

// Fetch implements pipeline.Source.
func (s *single) Fetch(context.Context, pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	if s.t == nil {
		return nil, pipeline.ErrEnd
	}
	d := pipeline.Delivery{Transaction: s.t, Count: 1}
	s.t = nil
	return []pipeline.Delivery{d}, pipeline.ErrEnd
}

// openSinks opens the sink, which is nil where there is none, and that of dead letters, which becomes an option.
func (a *app) openSinks(ctx context.Context, s *pipelineSetup, to, letters *place, o sinkOptions) (sink pipeline.Sink, err error) {
	if to != nil {
		if sink, err = a.openPipeSink(ctx, s, *to, o); err != nil {
			return nil, err
		}
	}
	if letters == nil {
		return sink, nil
	}
	o.letters = true
	dead, err := a.openPipeSink(ctx, s, *letters, o)
	if err != nil {
		return nil, err
	}
	s.options = append(s.options, pipeline.WithDeadLetter(dead))
	return sink, nil
}

// longest is how long an HTTP request may take: as long as the steps allow, and not less than by default.
func longest(steps ...policy.Step) time.Duration {
	d := httpsink.DefaultTimeout
	for _, s := range steps {
		d = max(d, s.Retry.TimeoutPerAttempt)
	}
	return d
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
