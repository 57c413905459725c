package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobline"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

type enqueueFlags struct {
	line      jobline.Line
	runAt     string
	delay     time.Duration
	timeout   time.Duration
	uniqueFor time.Duration
	json      string
	migrate   bool
	dryRun    bool
	form      *string
}

// EnqueueCommand returns "tenet enqueue", which is also "tenet jobs enqueue".
func EnqueueCommand(a *cli.App) *cobra.Command {
	f := &enqueueFlags{}
	cmd := &cobra.Command{
		Use: "enqueue TYPE [PAYLOAD]", Short: "Store a job that a worker will run", Args: cobra.RangeArgs(0, 2),
		Long: `Store a job that a worker will run. The payload is JSON; text that is not valid JSON is stored as a string.

The built-in worker runs these types:

  http  {"method", "url", "headers", "body", "expect_status"}
  exec  {"argv", "env", "dir", "stdin"}            (workers with --allow-exec)

With --json the job is one line of JSON instead: {type, payload, queue, run_at, max_attempts, priority, timeout,
unique_key, meta}; --json - reads it from stdin. The command prints the job's ID, or the ID of the earlier job with the same
unique key. A missing SQLite store is created. If workers are running but none of them takes the job, the command warns
and stores it.`,
		Example: `  tenet enqueue http '{"url":"https://example.com/ping"}' --store sqlite:jobs.db
  tenet enqueue exec '{"argv":["backup","--full"]}' --delay 1h --unique-key backup
  tenet enqueue --json '{"type":"http","payload":{"url":"https://example.com/"},"max_attempts":5}'`,
	}
	flags := cmd.Flags()
	store := open.JobsFlag(cmd)
	flags.StringVar(&f.line.Queue, "queue", "", `queue (default "default")`)
	flags.StringVar(&f.runAt, "run-at", "", "earliest start, for example 2026-03-02T08:00:00Z (default now)")
	flags.Var(cli.Duration(&f.delay), "delay", "earliest start, from now")
	flags.IntVar(&f.line.MaxAttempts, "max-attempts", 0, "maximum number of attempts (default: the policy's)")
	flags.IntVar(&f.line.Priority, "priority", 0, "from 0, the highest, to 9")
	flags.Var(cli.Duration(&f.timeout), "timeout", "how long one attempt may take (default: the policy's)")
	flags.StringVar(&f.line.UniqueKey, "unique-key", "", "store nothing if a job of the queue has this key")
	flags.Var(cli.Duration(&f.uniqueFor), "unique-for", "how long the key is held (default: until its job has finished)")
	flags.StringVar(&f.json, "json", "", "the whole job as JSON; - is stdin")
	flags.BoolVar(&f.migrate, "migrate", false, "create or update the tables on PostgreSQL first")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check and print the job without storing it")
	hidden, payloads := SecretFlags(cmd), open.PayloadFlags(cmd)
	f.form = cli.OutputFlag(cmd)
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		r, err := request(a, cmd, f, args)
		if err != nil {
			return err
		}
		if f.dryRun {
			f.line.Payload, f.line.Meta = hidden.JSON(f.line.Payload), hidden.Map(f.line.Meta)
			return a.Print(*f.form, f.line, func(w io.Writer) {
				text, _ := json.Marshal(f.line) // it was parsed or checked
				cli.Fprintf(w, "would enqueue %s\n", text)
			})
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store, Create: true, Migrate: f.migrate}, func(s open.JobStore) error {
			client, err := payloads.Client(cmd.Context(), a, s)
			if err != nil {
				return err
			}
			if f.line.Flow != "" {
				return f.enqueueFlow(cmd.Context(), a, enqueuer{s, client}, r)
			}
			receipt, err := client.Enqueue(cmd.Context(), r)
			if err != nil {
				return err
			}
			warnUntaken(cmd.Context(), a, s, map[jobKind]bool{kindOfJob(r): true})
			return cli.Unprinted("job "+receipt.ID+" is stored", a.Print(*f.form, api.Receipt(receipt), cli.AsLine("%s", receipt.ID)))
		})
	})
}

// looksLikeJSON reports whether a text begins like a JSON object or list.
func looksLikeJSON(text string) bool {
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

// request returns the job that arguments and flags describe.
func request(a *cli.App, cmd *cobra.Command, f *enqueueFlags, args []string) (job.Request, error) {
	if f.json != "" {
		return requestOfJSON(a, cmd, f, args)
	}
	if len(args) == 0 {
		return job.Request{}, cli.Usagef("no job given; write a type and a payload, or --json JSON")
	}
	f.line.Type = args[0]
	if len(args) == 2 {
		f.line.Payload = asJSON([]byte(args[1]))
		if looksLikeJSON(args[1]) && !json.Valid([]byte(args[1])) {
			a.Warn("the payload looks like JSON but is not valid; it is stored as a string")
		}
	}
	switch {
	case f.runAt != "" && f.delay > 0:
		return job.Request{}, cli.Usagef("--run-at and --delay both set the start; give one of them")
	case f.delay > 0:
		f.line.RunAt = time.Now().Add(f.delay).UTC()
	case f.runAt != "":
		t, err := time.Parse(time.RFC3339, f.runAt)
		if err != nil {
			return job.Request{}, cli.Usagef("--run-at %q: write a time such as 2026-03-02T08:00:00Z", f.runAt)
		}
		f.line.RunAt = t
	}
	if f.timeout > 0 {
		f.line.Timeout = jobline.Timeout(f.timeout.String())
	}
	if f.uniqueFor > 0 && f.line.UniqueKey == "" {
		return job.Request{}, cli.Usagef("--unique-for needs --unique-key")
	}
	r, err := f.line.Request()
	if err != nil {
		return job.Request{}, cli.Usagef("%w", err)
	}
	r.UniqueFor = f.uniqueFor
	return r, nil
}

// requestOfJSON returns the job of --json.
func requestOfJSON(a *cli.App, cmd *cobra.Command, f *enqueueFlags, args []string) (job.Request, error) {
	for _, name := range []string{"queue", "run-at", "delay", "max-attempts", "priority", "timeout", "unique-key", "unique-for"} {
		if cmd.Flags().Changed(name) {
			return job.Request{}, cli.Usagef("--%s cannot be combined with --json; set it in the JSON", name)
		}
	}
	if len(args) > 0 {
		return job.Request{}, cli.Usagef("a TYPE argument cannot be combined with --json; set it in the JSON")
	}
	text := []byte(f.json)
	if f.json == cli.StandardInput {
		var err error
		if text, err = a.ReadFile(cmd.Context(), f.json); err != nil {
			return job.Request{}, err
		}
	}
	r, err := jobline.Parse(bytes.TrimSpace(text))
	if err != nil {
		return job.Request{}, cli.Usagef("--json: %w", err)
	}
	return r.Request, json.Unmarshal(text, &f.line)
}

// enqueuer is a store with a client of it.
type enqueuer struct {
	store  open.JobStore
	client *job.Client
}

// enqueueFlow stores a flow of one job.
func (f *enqueueFlags) enqueueFlow(ctx context.Context, a *cli.App, s enqueuer, r job.Request) error {
	line := &f.line
	flow := &job.Flow{ID: line.Flow, Jobs: []job.FlowJob{{Request: r, Node: line.Node, Needs: line.Needs, OnFailure: line.OnFailure}}}
	receipt, err := s.client.EnqueueFlow(ctx, flow)
	if fault, ok := errors.AsType[*job.FlowError](err); ok {
		return cli.Usagef("--json: %w; jobs that need each other stand in one import: tenet jobs import FILE", fault)
	}
	if err != nil {
		return err
	}
	warnUntaken(ctx, a, s.store, map[jobKind]bool{kindOfJob(r): true})
	return cli.Unprinted("flow "+receipt.ID+" is stored", a.Print(*f.form, api.FlowReceipt(receipt), cli.AsLine("%s", receipt.ID)))
}

type importFlags struct {
	path            string
	file            io.ReadCloser // at path
	size            int64
	window          time.Duration
	migrate, dryRun bool
	form            *string
}

func jobsImportCommand(a *cli.App) *cobra.Command {
	f := &importFlags{window: jobline.DefaultWindow}
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Store the jobs in a file of JSON lines", Args: cobra.ExactArgs(1),
		Long: `Store the jobs of a file, one JSON object on each line: {type, payload, queue, run_at, max_attempts, priority,
timeout, unique_key, meta}. The file - is stdin. A missing SQLite store is created.

The jobs of a flow also have {flow, node, needs, on_failure}: the flow's ID, the job's name in it, the names of the
jobs that must end before it, and what it does when one of them fails: cancel (default), run or hold. All lines of a
flow stand in one import; each flow is stored as a whole at its end, or not at all. A flow whose ID exists counts as existing.

Importing a file again does not store a job twice, even after a partial import and after its jobs have
finished: every line has a unique key that is held for --unique-for. It is the line's own or, for lines without
one, made from the line's text and the number of equal lines before it in the file. Equal lines are therefore separate
jobs, and an edited line is a new job.

Invalid lines are reported by number, and the others are imported, except for flows that an invalid line belongs to or may
belong to. Exits with 1 if a line was rejected.`,
		Example: `  tenet jobs import deliveries.jsonl --store sqlite:jobs.db
  zcat more.jsonl.gz | tenet jobs import - -o json`,
	}
	store := open.JobsFlag(cmd)
	cmd.Flags().Var(cli.Duration(&f.window), "unique-for", "how long unique keys are held")
	cmd.Flags().BoolVar(&f.migrate, "migrate", false, "create or update the tables on PostgreSQL first")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "check all lines without storing jobs")
	f.form = cli.OutputFlag(cmd)
	payloads := open.PayloadFlags(cmd)
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		f.path = args[0]
		var err error
		if f.file, f.size, err = a.OpenInput(cmd.Context(), f.path); err != nil { // first, so that a missing file leaves no store behind
			return err
		}
		defer f.file.Close()
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store, Create: true, Migrate: f.migrate, DryRun: f.dryRun}, func(s open.JobStore) error {
			client, err := payloads.Client(cmd.Context(), a, s)
			if err != nil {
				return err
			}
			return importFile(cmd.Context(), a, enqueuer{s, client}, f)
		})
	})
}

func importFile(ctx context.Context, a *cli.App, s enqueuer, f *importFlags) error {
	kinds := map[jobKind]bool{}
	o := jobline.Options{Window: f.window, DryRun: f.dryRun, Enqueued: func(r job.Request) { kinds[kindOfJob(r)] = true }}
	clear := func() {}
	if cli.IsTerminal(a.Stderr) && f.size > 0 {
		var bar func(done, total int64, text string)
		bar, clear = a.Bar()
		o.Progress = func(bytes int64, lines int) { bar(bytes, f.size, cli.Count(lines, "line")) }
	}
	result, failed := jobline.Import(ctx, s.client, f.file, o)
	clear()
	warnUntaken(ctx, a, s.store, kinds)
	err := a.Print(*f.form, result, func(w io.Writer) {
		verb := "imported"
		if f.dryRun {
			verb = "would be imported"
		}
		cli.Fprintf(w, "%d %s, %d existed, %d rejected\n", result.Imported, verb, result.Existing, len(result.Rejected))
	})
	if *f.form == cli.FormText {
		for _, r := range result.Rejected {
			a.Say(slog.LevelError, "", "%s:%d: %s", f.path, r.Line, r.Error)
		}
	}
	switch {
	case failed != nil:
		return fmt.Errorf("the import was interrupted; it is safe to repeat: %w", failed)
	case err != nil:
		return err
	case len(result.Rejected) > 0:
		return cli.Exit(cli.ExitFailed)
	}
	return nil
}
