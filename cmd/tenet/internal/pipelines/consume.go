package pipelines

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

type consumeFlags struct {
	pipelineFlags
	task, retryExit string
	killGrace       time.Duration
}

// Commands returns "tenet consume", "tenet produce" and "tenet pipeline".
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{consumeCommand(a), produceCommand(a), pipelineCommand(a)}
}

func consumeCommand(a *cli.App) *cobra.Command {
	f := &consumeFlags{killGrace: cli.DefaultKillGrace}
	cmd := &cobra.Command{
		Use: "consume --policy FILE NAME --source URL --task TASK", Short: "Process the transactions of a source", Args: cobra.ExactArgs(1),
		Long: `Fetch transactions from a source and process each with a task, under the consumer NAME of a policy document. Changes to
the document take effect before the next batch, or within 10s while no worker is free; loop.timeout is read when the
run starts.

Sources:
  file:PATH.jsonl, file:PATH.csv   one transaction for each line; continues where the last run ended
                                   (?follow=true, forget=true, offsets=PATH, envelope=true, format=jsonl|csv)
  nats://HOST/STREAM?consumer=…    a JetStream consumer
  amqp://HOST/QUEUE                a RabbitMQ queue
  postgres://HOST/DB?table=…       a table used as a queue; with &consumer=NAME an outbox
  jobs:STORE-URL?queue=…           stored jobs of a queue, for example jobs:sqlite:jobs.db?queue=mail
                                   (&payload_keys=FILE decrypts, and encrypts as a sink; &lease=, &max_attempts=)

Tasks:
  exec:COMMAND   run by sh for every attempt, with the payload on stdin and TENET_TRANSACTION_ID and TENET_ATTEMPT
                 in its environment. Exit code 0 is success; other codes are failures that are retried, or final if
                 --retry-exit does not list them. With --sink, its output is passed on; otherwise it goes to stderr
  http:URL       POST the payload, with the ID as Idempotency-Key. 408, 429 and 5xx are retried, other 4xx are final.
                 With --sink, the answer's body is passed on
  sink           pass the payload on to --sink

A transaction that fails for good goes to --dead-letter, or is delivered again later. Sinks take the same URLs as sources,
and http://…. A file sink gets its name when the run is done (?append=true, replace=true); a file of dead letters is
appended to. Jobs need a type (jobs:STORE-URL?queue=…&type=…); jobs from dead letters continue the count of attempts
if the document has a policy for them.

--payload or --id runs one transaction without a source; the exit code is then 0 only if it was processed, and not if it
became a dead letter.

SIGTERM and Ctrl-C stop fetching and give running transactions --grace to finish; the rest is cancelled and given
back. A second signal cancels at once. --audit records every decision before it takes effect. With
--idempotency-store a transaction ID that has already ended is not run again.

--listen serves /livez (503 while a fetch hangs; an empty source is healthy), /readyz (sources and sinks are usable, as far
as they can be checked, and the consumer is not stopping) and /metrics (Prometheus).

Exit codes: 0 done; 1 a transaction failed without a handler or dead letter, or the run could not continue; 2 usage;
3 invalid document; 5 the document has no such consumer, or a file or store that is read does not exist; 130 and 143
stopped by SIGINT or SIGTERM.`,
		Example: `  tenet consume --policy policies.yaml orders --source file:orders.jsonl --task exec:./charge.sh --dead-letter file:dead.jsonl
  tenet consume --policy policies.yaml orders --source 'postgres://localhost/shop?table=queue' --task http://localhost:8080/orders
  tenet consume --policy policies.yaml orders --source 'postgres://localhost/shop?table=outbox&consumer=mail' --task sink --sink amqp://localhost/mail
  tenet consume --policy policies.yaml orders --payload '{"order": 17}' --id order-17 --task exec:./charge.sh`,
	}
	f.add(cmd, "source", "where transactions come from: "+open.UseSource.Forms())
	flags := cmd.Flags()
	flags.StringVar(&f.task, "task", "", "what to do with each transaction: exec:COMMAND, http:URL or sink")
	flags.StringVar(&f.retryExit, "retry-exit", "", "exit codes that an exec task is retried after, such as 75,100-110 (default: all)")
	flags.Var(cli.Duration(&f.killGrace), "kill-grace", "how long an exec task may take to end after SIGTERM")
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		return consumer(f, args[0]).run(cmd.Context(), a)
	})
}

// consumer returns the consumer with a name.
func consumer(f *consumeFlags, name string) pipe {
	var spec taskSpec
	return pipe{
		pipelineFlags: &f.pipelineFlags, name: name, kind: "consumer", verb: "consume", from: "source",
		find: func(set *policy.Set) ([]policy.Step, int, bool) {
			of, ok := set.Consumer(name)
			return []policy.Step{of.Steps.Process, of.Steps.Success, of.Steps.Exception}, of.Loop.Concurrency.Value, ok
		},
		check: func() (err error) {
			spec, err = parseTask(f)
			return err
		},
		engine: func(s *pipelineSetup, timeout time.Duration) (engine, error) {
			task, err := s.task(spec, f.killGrace, timeout)
			if err != nil {
				return nil, err
			}
			of, _ := s.set.Consumer(name)
			options := append([]pipeline.Option{pipeline.WithEnded(s.noteEnd)}, s.options...)
			return pipeline.NewConsumer(s.from, task, of, options...), nil
		},
	}
}
