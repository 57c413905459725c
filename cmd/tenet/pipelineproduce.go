package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

type produceFlags struct {
	pipelineFlags
	input string
}

func (a *app) produceCommand() *cobra.Command {
	f := &produceFlags{}
	cmd := &cobra.Command{
		Use: "produce --policy FILE NAME --input URL --sink URL", Short: "Write the transactions of an input to a sink", Args: cobra.ExactArgs(1),
		Long: `Write what an input holds to a sink, under the producer NAME of a policy document: in chunks of its batch.size, one
after another, the transactions of a chunk at the same time.

Inputs and sinks are those of "tenet consume --help". What has been written is acknowledged after each chunk, so that
a run that was stopped can be repeated; what fails is left in the input for the next run, or goes to --dead-letter.
The run ends when the input is empty. --payload or --id write one transaction.

SIGTERM and Ctrl-C finish the running chunk, for --grace at most; a second signal cancels at once.

Exit codes: 0 done; 1 a transaction failed, or the run could not go on; 2 usage; 3 invalid document; 5 the document
has no such producer; 130 and 143 stopped by SIGINT or SIGTERM.`,
		Example: `  tenet produce --policy policies.yaml invoices --input file:invoices.csv --sink https://example.com/invoices
  tenet produce --policy policies.yaml invoices --payload '{"invoice": 4711}' --sink 'postgres://localhost/shop?table=queue'`,
	}
	audit, form := addPipelineFlags(cmd, &f.pipelineFlags)
	cmd.Flags().StringVar(&f.input, "input", "", "where transactions come from: file:PATH.jsonl, file:PATH.csv, or any other source")
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		f.audit, f.form = *audit, *form
		return a.produce(cmd.Context(), f, args[0])
	})
	return cmd
}

// producePlan is what a producer's flags say.
type producePlan struct {
	input, sink, letters *place
	one                  *pipeline.Transaction
}

func (a *app) planProduce(ctx context.Context, f *produceFlags) (p producePlan, err error) {
	if p.one, err = f.single(ctx, a); err != nil {
		return p, err
	}
	switch {
	case f.sink == "":
		return p, usage("no sink given; write --sink %s", placeForms)
	case p.one != nil && f.input != "":
		return p, usage("--input does not go with --payload or --id, which write one transaction")
	case p.one == nil && f.input == "":
		return p, usage("no input given; write --input file:invoices.jsonl, or --payload JSON for one transaction")
	}
	if p.input, err = optionalPlace("input", f.input, fileSourceParameters); err != nil {
		return p, err
	}
	if p.input != nil && p.input.kind == placeHTTP {
		return p, usage("--input %s: HTTP can only be written to", f.input)
	}
	p.sink, p.letters, err = f.sinks()
	return p, err
}

// produce is "tenet produce" behind its flags.
func (a *app) produce(ctx context.Context, f *produceFlags, name string) (err error) {
	changes := &policyChanges{}
	provider, set, err := a.pipelineSet(ctx, &f.pipelineFlags, changes)
	if err != nil {
		return err
	}
	if closer, ok := provider.(io.Closer); ok {
		defer func() { err = errors.Join(err, closer.Close()) }()
	}
	of, ok := set.Producer(name)
	if !ok {
		return unnamed(f.policy, "producer", name, slices.Collect(maps.Keys(pipelinesOf(set).Producers)))
	}
	plan, err := a.planProduce(ctx, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.print(formText, nil, func(w io.Writer) {
			fmt.Fprintf(w, "would produce %s as %s with %d at once\n", orText(f.input, "one transaction"), name, of.Loop.Concurrency.Value)
		})
	}
	s, err := a.setUp(ctx, &f.pipelineFlags, name, provider, changes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	sink, err := a.openSinks(ctx, s, plan.sink, plan.letters, sinkOptions{
		timeout: longest(of.Steps.Produce, of.Steps.Success, of.Steps.Exception), set: set,
	})
	if err != nil {
		return err
	}
	if plan.one != nil {
		return a.produceOne(ctx, f, s, plan.one, sink, of)
	}
	source, err := a.openSource(ctx, s, *plan.input)
	if err != nil {
		return err
	}
	in := &intake{source: source, size: of.Loop.Batch.Size, wait: of.Loop.Batch.Interval, held: map[*pipeline.Transaction]pipeline.Delivery{}, log: s}
	if in.wait == 0 && plan.input.kind != placeFile {
		in.wait = firstWait
	}
	producer := pipeline.NewProducer(sink, decoded(passOn), of, append(s.options, pipeline.WithEnded(in.ended))...)
	summary, err := a.runEngine(ctx, s, producer, f.grace, func(ctx context.Context) (pipeline.Summary, error) {
		extending, stop := context.WithCancel(ctx)
		var extender sync.WaitGroup
		extender.Go(func() { in.extend(extending) })
		defer extender.Wait()
		defer stop()
		summary, err := producer.Run(ctx, in.all(ctx))
		summary.Unsettled += in.finish(ctx)
		return summary, err
	})
	return a.finish(ctx, f.form, summary, err)
}

// firstWait is how long a broker may take to hand over its first messages.
const firstWait = time.Second

func passOn(context.Context, *pipeline.Transaction) (any, error) { return nil, nil }

func (a *app) produceOne(ctx context.Context, f *produceFlags, s *pipelineSetup, t *pipeline.Transaction, sink pipeline.Sink, of policy.Producer) error {
	var o only
	producer := pipeline.NewProducer(sink, nil, of, append(s.options, pipeline.WithEnded(o.note))...)
	summary, err := a.runEngine(ctx, s, producer, f.grace, func(ctx context.Context) (pipeline.Summary, error) {
		return producer.Run(ctx, pipeline.Transactions(t))
	})
	if err == nil {
		err = o.verdict()
	}
	return a.finish(ctx, f.form, summary, err)
}

// intake makes the finite input of a producer of a source, and settles with the source what became of it: what was written
// before the next fetch, what was not at the end, so that it does not come again in the same run.
type intake struct {
	source pipeline.Source
	size   int
	wait   time.Duration
	log    *pipelineSetup

	mu     sync.Mutex
	held   map[*pipeline.Transaction]pipeline.Delivery
	done   []pipeline.Delivery
	failed int // acknowledgements that the source did not take
}

// all is the input, up to the first empty fetch.
func (in *intake) all(ctx context.Context) func(yield func(*pipeline.Transaction, error) bool) {
	return func(yield func(*pipeline.Transaction, error) bool) {
		for {
			in.settle(ctx)
			got, err := in.source.Fetch(ctx, pipeline.FetchRequest{Max: in.size, Wait: in.wait})
			in.hold(got)
			for _, d := range got {
				if !yield(d.Transaction, nil) {
					return
				}
			}
			switch {
			case errors.Is(err, pipeline.ErrEnd):
				return
			case err != nil:
				yield(nil, err)
				return
			case len(got) == 0:
				return
			}
		}
	}
}

func (in *intake) hold(got []pipeline.Delivery) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, d := range got {
		in.held[d.Transaction] = d
	}
}

// ended notes what became of a transaction.
func (in *intake) ended(e pipeline.Ended) {
	if e.Outcome != pipeline.Success && e.Outcome != pipeline.Exception {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if d, ok := in.held[e.Delivery.Transaction]; ok {
		delete(in.held, e.Delivery.Transaction)
		in.done = append(in.done, d)
	}
}

// settle acknowledges what is done.
func (in *intake) settle(ctx context.Context) {
	in.mu.Lock()
	done := in.done
	in.done = nil
	in.mu.Unlock()
	acker, ok := in.source.(pipeline.Acker)
	if !ok || len(done) == 0 {
		return
	}
	for i, err := range acker.Ack(ctx, done) {
		in.note(done[i], err)
	}
}

func (in *intake) note(d pipeline.Delivery, err error) {
	if err == nil {
		return
	}
	in.log.log.Warn("the input did not take an acknowledgement; the transaction may come again", "transaction", d.Transaction.ID(), "error", err)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.failed++
}

// finish settles everything, and returns what the source did not take.
func (in *intake) finish(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	in.settle(ctx)
	if nacker, ok := in.source.(pipeline.Nacker); ok {
		for _, d := range in.left() {
			in.note(d, nacker.Nack(ctx, d, 0, nil))
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.failed
}

func (in *intake) left() []pipeline.Delivery {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Collect(maps.Values(in.held))
}

// kept is what is not settled.
func (in *intake) kept() []pipeline.Delivery {
	list := in.left()
	in.mu.Lock()
	defer in.mu.Unlock()
	return append(list, in.done...)
}

// extend keeps what is held until ctx ends.
func (in *intake) extend(ctx context.Context) {
	extender, ok := in.source.(pipeline.Extender)
	if !ok || extender.ExtendEvery() <= 0 {
		return
	}
	tick := time.NewTicker(extender.ExtendEvery())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if held := in.kept(); len(held) > 0 {
			extender.Extend(ctx, held) // what cannot be extended is found out by its acknowledgement
		}
	}
}
