package pipelines

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

func produceCommand(a *cli.App) *cobra.Command {
	f := &pipelineFlags{}
	cmd := &cobra.Command{
		Use: "produce --policy FILE NAME --input URL --sink URL", Short: "Write the transactions of an input to a sink", Args: cobra.ExactArgs(1),
		Long: `Write the transactions of an input to a sink, under the producer NAME of a policy document: in chunks of its batch.size, one
chunk after another, and the transactions of a chunk concurrently.

Inputs and sinks are those of "tenet consume --help". Written transactions are acknowledged after each chunk, so that
a run that was stopped can be repeated. Failed transactions stay in the input for the next run, or go to --dead-letter.
The run ends when the input is empty. --payload or --id writes one transaction.

SIGTERM and Ctrl-C finish the running chunk, for --grace at most; a second signal cancels at once.
--listen serves /livez, /readyz and /metrics as "tenet consume" does.

Exit codes: 0 done; 1 a transaction failed, or the run could not continue; 2 usage; 3 invalid document; 5 the document
has no such producer, or a file or store that is read does not exist; 130 and 143 stopped by SIGINT or SIGTERM.`,
		Example: `  tenet produce --policy policies.yaml invoices --input file:invoices.csv --sink https://example.com/invoices
  tenet produce --policy policies.yaml invoices --payload '{"invoice": 4711}' --sink 'postgres://localhost/shop?table=queue'`,
	}
	f.add(cmd, "input", "where transactions come from: "+open.UseSource.Forms())
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		return producer(f, args[0]).run(cmd.Context(), a)
	})
}

// producer returns the producer with a name.
func producer(f *pipelineFlags, name string) pipe {
	return pipe{
		pipelineFlags: f, name: name, kind: "producer", verb: "produce", from: "input",
		find: func(set *policy.Set) ([]policy.Step, int, bool) {
			of, ok := set.Producer(name)
			return []policy.Step{of.Steps.Produce, of.Steps.Success, of.Steps.Exception}, of.Loop.Concurrency.Value, ok
		},
		check: func() error {
			if f.sink == "" {
				return cli.Usagef("no sink given; write --sink %s", open.UseSink.Forms())
			}
			return nil
		},
		engine: func(s *pipelineSetup, _ time.Duration) (engine, error) {
			of, _ := s.set.Producer(name)
			in := newIntake(s, of.Loop.Batch)
			options := append([]pipeline.Option{pipeline.WithEnded(func(e pipeline.Ended) {
				s.noteEnd(e)
				in.ended(e)
			})}, s.options...)
			return &producing{pipeline.NewProducer(s.sink, decoded(pipeline.Map(passOn)), of, options...), in}, nil
		},
	}
}

// producing is a producer with its input.
type producing struct {
	*pipeline.Producer[*pipeline.Transaction]
	in *intake
}

// Run runs the producer to the end of the input.
func (p *producing) Run(ctx context.Context) (pipeline.Summary, error) {
	extending, stop := context.WithCancel(ctx)
	var extender sync.WaitGroup
	extender.Go(func() { p.in.extend(extending) })
	defer extender.Wait()
	defer stop()
	summary, err := p.Producer.Run(ctx, p.in.all(ctx))
	summary.Unsettled += p.in.finish(ctx)
	return summary, err
}

// Healthy returns an error while the input does not answer.
func (p *producing) Healthy() error { return p.in.healthy() }

// firstWait is how long a broker may take to deliver its first messages.
const firstWait = time.Second

func passOn(_ context.Context, t *pipeline.Transaction) (*pipeline.Transaction, error) { return t, nil }

// intake turns a source into the finite input of a producer. It acknowledges written transactions before the next fetch, and
// gives back the others at the end, so that the source does not deliver them again in the same run.
type intake struct {
	source pipeline.Source
	size   int
	wait   time.Duration
	log    *pipelineSetup

	mu     sync.Mutex
	held   map[*pipeline.Transaction]pipeline.Delivery
	done   []pipeline.Delivery
	failed int       // acknowledgements that the source refused
	fetch  time.Time // start of the running fetch; zero without one
}

func newIntake(s *pipelineSetup, b policy.Batch) *intake {
	in := &intake{source: s.from, size: b.Size, wait: b.Interval, log: s, held: map[*pipeline.Transaction]pipeline.Delivery{}}
	if _, ok := s.from.(*file.Source); in.wait == 0 && !ok {
		in.wait = firstWait
	}
	return in
}

// all returns the input, up to the first empty fetch.
func (in *intake) all(ctx context.Context) func(yield func(*pipeline.Transaction, error) bool) {
	return func(yield func(*pipeline.Transaction, error) bool) {
		for {
			in.settle(ctx)
			in.fetching(time.Now())
			got, err := in.source.Fetch(ctx, pipeline.FetchRequest{Max: in.size, Wait: in.wait})
			in.fetching(time.Time{})
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

func (in *intake) fetching(at time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.fetch = at
}

// healthyFetch is how much longer than the requested wait a fetch may take.
const healthyFetch = time.Minute

func (in *intake) healthy() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if took := time.Since(in.fetch); !in.fetch.IsZero() && took > in.wait+healthyFetch {
		return fmt.Errorf("the input has not answered for %s", took.Round(time.Second))
	}
	return nil
}

func (in *intake) hold(got []pipeline.Delivery) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, d := range got {
		in.held[d.Transaction] = d
	}
}

// ended records the end of a transaction.
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

// settle acknowledges the transactions that are done.
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
	in.log.log.Warn("the input refused an acknowledgement; it may deliver the transaction again", "transaction", d.Transaction.ID(), "error", err)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.failed++
}

// finish settles all transactions, and returns how many the source refused to settle.
func (in *intake) finish(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), open.CloseTime)
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

// kept returns the transactions that are not settled.
func (in *intake) kept() []pipeline.Delivery {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.AppendSeq(slices.Clone(in.done), maps.Values(in.held))
}

// extend extends the source's hold on unsettled transactions until ctx ends.
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
			extender.Extend(ctx, held) // if this fails, the acknowledgement will fail too
		}
	}
}
