package workers

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/monitor"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
)

// onceFlags are the flags of a worker that records its jobs under idempotency keys.
type onceFlags struct {
	store, key string
	replaySafe bool
	flags      *pflag.FlagSet
}

const metaPrefix = "meta."

func (f *onceFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.flags = flags
	flags.StringVar(&f.store, "idempotency-store", "", "run the effect of each job once, and keep the keys here: "+open.UseRecords.Forms())
	flags.StringVar(&f.key, "idempotency-key", "id", "what identifies a job: id, or meta.NAME for a value of its metadata")
	flags.BoolVar(&f.replaySafe, "replay-safe", false, "with --idempotency-store: a handler may run again if its worker was killed while it ran")
}

func (f *onceFlags) check() error {
	if err := cli.CheckNeeds(f.flags, "idempotency-store", "idempotency-key", "replay-safe"); err != nil {
		return err
	}
	_, err := f.keyOf()
	return err
}

// keyOf returns the function that derives the idempotency key of a job, or nil for its ID.
func (f *onceFlags) keyOf() (func(j job.Job[[]byte]) string, error) {
	if f.key == "id" {
		return nil, nil
	}
	name, ok := strings.CutPrefix(f.key, metaPrefix)
	if !ok || name == "" {
		return nil, cli.Usagef("--idempotency-key %q: write id or meta.NAME", f.key)
	}
	return func(j job.Job[[]byte]) string { return j.Meta[name] }, nil
}

// middleware returns the middleware that runs the effect of each job once.
func (f *workerFlags) middleware(ctx context.Context, a *cli.App, w *monitor.Watch) (job.Middleware, func() error, error) {
	key, err := f.once.keyOf()
	if err != nil {
		return nil, nil, err
	}
	guard, closeStore, err := open.Guard(ctx, a, f.once.store, idempotency.GuardOptions{
		TTL: open.JobTTL, Lease: f.lease, ReplaySafe: f.once.replaySafe, Observer: w.Observer, Journal: w.Journal,
	})
	if err != nil {
		return nil, nil, err
	}
	return job.Idempotent(guard, key), closeStore, nil
}
