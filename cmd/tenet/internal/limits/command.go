package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/near"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/server/api"
)

// Command returns "tenet limits".
func Command(a *cli.App) *cobra.Command {
	return cli.Group("limits", "List and set the limits of queues and job types", "", listCommand(a), setCommand(a))
}

func listCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List limits with their buckets in use, the fullest first", Args: cobra.NoArgs,
		Long: `List the limits of the store: what bounds their jobs, where that comes from (the document of a worker, or a setting, which
stands above it), and their buckets in use. HELD counts the places of jobs that are ready or running, and of those that keep
their order through a retry; WAITING counts the jobs that wait for a place.`,
		Example: "  tenet limits list --store sqlite:jobs.db",
	}
	store := open.JobsFlag(cmd)
	buckets := cmd.Flags().IntP("number", "n", 5, "buckets to list of each limit")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) error {
		if *buckets < 0 || *buckets > 1000 {
			return cli.Usagef("--number %d: write a number between 0 and 1000", *buckets)
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			states, err := s.Limits(cmd.Context())
			if err != nil {
				return err
			}
			list := make([]api.Limit, 0, len(states))
			for _, l := range states {
				use, err := s.LimitUse(cmd.Context(), l.LimitName, *buckets)
				if err != nil {
					return err
				}
				list = append(list, api.NewLimit(l, use))
			}
			return a.Print(form, list, func(w io.Writer) { table(w, list) })
		})
	})
}

// table prints each limit, and below it its buckets.
func table(w io.Writer, list []api.Limit) {
	var rows [][]any
	for _, l := range list {
		of := "queue " + l.Queue
		if l.Type != "" {
			of = "type " + l.Type
		}
		rows = append(rows, []any{l.Name, cli.OneLine(of), l.Source, cli.OneLine(bound(l.InForce)), l.Use.Held, l.Use.Waiting})
		for _, b := range l.Use.Fullest {
			if b.Key != "" {
				rows = append(rows, []any{l.Name, cli.OneLine(b.Key), "", "", b.Held, b.Waiting})
			}
		}
	}
	cli.Table(w, "LIMIT\tOF\tSOURCE\tBOUND\tHELD\tWAITING", rows, func(cells []any) []any { return cells })
}

// bound describes the values of a limit.
func bound(v *api.LimitValues) string {
	if v == nil {
		return "off"
	}
	var parts []string
	if v.Concurrency > 0 {
		parts = append(parts, fmt.Sprint(v.Concurrency, " at a time"))
	}
	if v.Rate != nil {
		parts = append(parts, fmt.Sprintf("%d per %v, burst %d", v.Rate.Count, api.Duration(v.Rate.Per), v.Rate.Burst))
	}
	if v.Order == string(policy.OrderStrict) {
		parts = append(parts, "strict order")
	}
	text := strings.Join(parts, ", ")
	if len(v.Key) > 0 {
		text += " per " + strings.Join(v.Key, ", ")
	}
	return text
}

// settingFlags are the flags of "set".
type settingFlags struct {
	queue, jobType string
	key            []string
	concurrency    int
	count, burst   int
	per            time.Duration
	strict         bool
	off, reset     bool
	dryRun         bool
	log            string // --audit
}

func setCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME --queue QUEUE|--type TYPE", Short: "Set a limit of a queue or type", Args: cobra.ExactArgs(1),
		Long: `Set a limit of a queue or type for all workers of the store, above what their documents say. The command replaces the whole
limit: values that it does not name are absent. It holds for jobs that are enqueued from now on at once, and for those that
are there when the command returns. --off removes the bound whatever documents say; --reset removes the setting, so that
documents apply again.`,
		Example: `  tenet limits set per-tenant --queue mail --key meta.tenant --concurrency 5 --store sqlite:jobs.db
  tenet limits set vendor --type invoice:send --rate 100 --per 1m --burst 10 --store sqlite:jobs.db
  tenet limits set per-tenant --queue mail --reset --store sqlite:jobs.db`,
	}
	var f settingFlags
	flags := cmd.Flags()
	flags.StringVar(&f.queue, "queue", "", "the queue whose jobs the limit bounds")
	flags.StringVar(&f.jobType, "type", "", "the job type that the limit bounds")
	flags.StringSliceVar(&f.key, "key", nil, "fields that divide the jobs into buckets: queue, type, meta.NAME, payload.FIELD (default: one bucket)")
	flags.IntVar(&f.concurrency, "concurrency", 0, "how many jobs of a bucket run at a time (default: no bound)")
	flags.IntVar(&f.count, "rate", 0, "how many jobs of a bucket start per period (default: no bound)")
	flags.Var(cli.Duration(&f.per), "per", "the period of --rate (default 1s)")
	flags.IntVar(&f.burst, "burst", 0, "how many jobs may start at once after a pause (default: as --rate)")
	flags.BoolVar(&f.strict, "strict", false, "keep the order of enqueueing within a bucket; needs --concurrency 1")
	flags.BoolVar(&f.off, "off", false, "switch the limit off, whatever documents say")
	flags.BoolVar(&f.reset, "reset", false, "remove the setting: documents apply again")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok && wrong.GetFlag().Name == "rate" {
			return cli.Usagef("--rate %q: write a whole number, and its period in --per, for example --rate 5 --per 1m", wrong.GetValue())
		}
		return cmd.Parent().FlagErrorFunc()(cmd, err)
	})
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be done, without doing it")
	store, log := open.JobsFlag(cmd), recording.OperatorFlag(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		if flags.Changed("key") && (len(f.key) == 0 || slices.Contains(f.key, "")) {
			return cli.Usagef("--key: a field is empty; write queue, type, meta.NAME or payload.FIELD, or leave the flag out for one bucket")
		}
		for _, name := range []string{"concurrency", "rate"} {
			if flags.Changed(name) && flags.Lookup(name).Value.String() == "0" {
				return cli.Usagef("--%s 0: write 1 or more, or leave the flag out for no bound", name)
			}
		}
		setting, err := f.setting(args[0])
		if err != nil {
			return err
		}
		f.log = *log
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			limit, err := f.set(cmd.Context(), a, s, setting)
			if err != nil {
				return err
			}
			verb := "is"
			if f.dryRun {
				verb = "would be"
			}
			shown := api.NewLimit(limit, job.LimitUse{})
			return a.Print(form, shown, cli.AsLine("%s %s %s", setting.LimitName, verb, bound(shown.InForce)))
		})
	})
}

// set records a setting, makes it, and returns the limit with it. A dry run only returns the limit.
func (f *settingFlags) set(ctx context.Context, a *cli.App, s open.JobStore, setting job.LimitSetting) (job.LimitState, error) {
	limit, err := job.FindLimit(ctx, s, setting.LimitName)
	if err != nil {
		return limit, err
	}
	if f.reset && limit.Setting == nil && !limit.Off {
		return limit, cli.Fail(cli.ExitNotFound, fmt.Errorf("%s has no setting; see: tenet limits list", setting.LimitName))
	}
	if limit.InForce() == nil && !limit.Off {
		if err := warnUnknownQueue(ctx, a, s, setting.Queue); err != nil {
			return limit, err
		}
	}
	if f.dryRun {
		if limit.Setting, limit.Off = setting.Limit, setting.Off; setting.Limit != nil {
			limit.Setting = new(setting.Limit.Normalize()) // has the defaults
		}
		return limit, nil
	}
	if err := recording.Put(ctx, a, f.log, operation.OnLimit(limit, setting)); err != nil {
		return limit, err
	}
	if err := s.SetLimit(ctx, setting); err != nil {
		return limit, err
	}
	return job.FindLimit(ctx, s, setting.LimitName)
}

// setting returns what the flags say.
func (f *settingFlags) setting(name string) (job.LimitSetting, error) {
	s := job.LimitSetting{LimitName: job.LimitName{Queue: f.queue, Type: f.jobType, Name: name}, Off: f.off}
	valued := len(f.key) > 0 || f.concurrency != 0 || f.count != 0 || f.per != 0 || f.burst != 0 || f.strict
	switch {
	case (f.queue == "") == (f.jobType == ""):
		return s, cli.Usagef("a limit belongs to one queue or one type: give --queue or --type")
	case f.off && f.reset || valued && (f.off || f.reset):
		return s, cli.Usagef("--off and --reset stand alone: give one of them, or the values of the limit")
	case !valued && !f.off && !f.reset:
		return s, cli.Usagef("nothing to set: give --concurrency or --rate, or --off or --reset")
	case valued:
		s.Limit = &policy.JobLimit{
			Name: name, Key: f.key, Concurrency: f.concurrency, Rate: policy.Rate{Count: f.count, Per: f.per, Burst: f.burst}, Order: policy.OrderPriority,
		}
		if f.strict {
			s.Limit.Order = policy.OrderStrict
		}
	}
	if err := s.Check(); err != nil {
		return s, cli.Usagef("%s", f.faults(err))
	}
	return s, nil
}

// faults describes what is wrong with a setting in terms of the flags.
func (f *settingFlags) faults(err error) string {
	if named, ok := errors.AsType[*job.LimitError](err); ok {
		return fmt.Sprintf("--%s: %s", named.Field, named.Problem)
	}
	invalid, ok := errors.AsType[*policy.ValidationError](err)
	if !ok {
		return err.Error()
	}
	return strings.Join(lists.Map(invalid.Violations, f.fault), "; ")
}

func (f *settingFlags) fault(v policy.Violation) string {
	field, _, _ := strings.Cut(v.Path, "[")
	switch {
	case field == "rate.per":
		return fmt.Sprintf("--per %v: write a duration from 1ms to 1h", f.per)
	case field == "rate.count" && f.count == 0:
		return "--per and --burst need --rate"
	case field == "concurrency" && f.concurrency == 0:
		return "give --concurrency, --rate or both"
	case field == "order":
		return "--strict needs --concurrency 1"
	case field == "name":
		return "NAME: " + v.Problem + ", " + v.Remedy
	}
	remedy, _, _ := strings.Cut(v.Remedy, ", or leave the field out")
	flag := map[string]string{"rate.count": "rate", "rate.burst": "burst"}[field]
	return fmt.Sprintf("--%s: %s, %s", cmp.Or(flag, field), v.Problem, remedy)
}

// warnUnknownQueue warns of a queue that the store does not have, if its name resembles that of one that it has.
func warnUnknownQueue(ctx context.Context, a *cli.App, s open.JobStore, queue string) error {
	if queue == "" {
		return nil
	}
	stats, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	if _, known := stats[queue]; known {
		return nil
	}
	if match := near.Name(queue, slices.Sorted(maps.Keys(stats))); match != "" {
		a.Warn("the store has no queue %s; did you mean %s?", queue, match)
	}
	return nil
}
