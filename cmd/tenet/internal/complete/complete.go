package complete

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenetdev/tenet/cmd/tenet/internal/auditlog"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/periodic"
	"github.com/tenetdev/tenet/cmd/tenet/internal/pipelines"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

const (
	// completionTime is how long a shell waits for a store.
	completionTime = 2 * time.Second
	// completionJobs is how many jobs are read for their types and IDs.
	completionJobs = 1000
)

// candidates lists the completions of an argument or flag. After an error there are none.
type candidates func(ctx context.Context, a *cli.App, cmd *cobra.Command) []string

// Add adds completions to the flags and arguments of cmd and its subcommands. Elsewhere shells complete file names.
func Add(a *cli.App, cmd *cobra.Command) {
	if list := argumentCandidates()[cmd.CommandPath()]; list != nil {
		cmd.ValidArgsFunction = offer(a, list)
	}
	byName := flagCandidates()
	offerFlag := func(f *pflag.Flag) {
		list := byName[f.Name]
		if of, ok := f.Value.(*cli.Choice); ok {
			list = fixed(of.Allowed)
		}
		if cmd.CommandPath() == "tenet audit query" || cmd.CommandPath() == "tenet audit tail" {
			switch f.Name {
			case "type":
				list = fixed(auditlog.TypeNames())
			case "key", "reason":
				list = nil
			}
		}
		if list != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, offer(a, list)) // the flag exists and has no completion yet
		}
	}
	cmd.LocalFlags().VisitAll(offerFlag)
	for _, sub := range cmd.Commands() {
		Add(a, sub)
	}
}

func flagCandidates() map[string]candidates {
	return map[string]candidates{
		"queue": ofStore(queueNames), "type": ofStore(jobTypes), "state": fixed(lists.Texts(job.States())),
		"key": ofDocument(policyKeys), "category": fixed(policy.Category("").Values()),
	}
}

func argumentCandidates() map[string]candidates {
	list := map[string]candidates{
		"tenet queues pause": ofStore(queueNames), "tenet queues resume": ofStore(queueNames),
		"tenet enqueue": ofStore(jobTypes), "tenet jobs enqueue": ofStore(jobTypes),
		"tenet policy show": ofDocument(policyKeys), "tenet policy delays": ofDocument(policyKeys),
		"tenet consume": pipelinesOf("consumer"), "tenet produce": pipelinesOf("producer"),
		"tenet periodic run": periodicNames, "tenet dlq requeue": jobIDs(job.Dead), "tenet jobs retry": jobIDs(job.Dead, job.Cancelled, job.Completed),
	}
	for _, name := range []string{"inspect", "cancel", "delete"} {
		list["tenet jobs "+name] = jobIDs()
	}
	for _, name := range []string{"inspect", "pause", "resume", "abort", "undo", "rate"} {
		list["tenet redrives "+name] = ofStore(redriveIDs)
	}
	return list
}

// offer returns a completion function. It prints no errors, and creates and changes nothing.
func offer(a *cli.App, list candidates) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if err := a.Configure(cmd); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		ctx, err := open.WithServer(ctx, cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		quiet := *a
		quiet.Stderr = io.Discard
		var fitting []string
		for _, name := range list(ctx, &quiet, cmd) {
			plain := string(cli.Textf("%s", name)) == name // a name that needs escapes cannot be typed
			if plain && strings.HasPrefix(name, begun) && !slices.Contains(args, name) {
				fitting = append(fitting, name)
			}
		}
		return fitting, cobra.ShellCompDirectiveNoFileComp
	}
}

// fixed offers the same names everywhere.
func fixed(names []string) candidates {
	return func(context.Context, *cli.App, *cobra.Command) []string { return names }
}

// ofStore offers names from the command's store.
func ofStore(ask func(ctx context.Context, s open.JobStore) ([]string, error)) candidates {
	return func(ctx context.Context, a *cli.App, cmd *cobra.Command) (names []string) {
		_ = open.WithJobs(ctx, a, open.Options{URL: open.Text(cmd, "store")}, func(s open.JobStore) (err error) {
			names, err = ask(ctx, s)
			return err
		})
		return names
	}
}

func queueNames(ctx context.Context, s open.JobStore) ([]string, error) {
	stats, err := s.Stats(ctx)
	return slices.Sorted(maps.Keys(stats)), err
}

func jobTypes(ctx context.Context, s open.JobStore) ([]string, error) {
	list, err := s.List(ctx, job.Filter{}, "", completionJobs)
	types := lists.Map(list, func(r *job.Record) string { return r.Type })
	return slices.Compact(slices.Sorted(slices.Values(types))), err
}

func jobIDs(states ...job.State) candidates {
	return ofStore(func(ctx context.Context, s open.JobStore) ([]string, error) {
		list, err := s.List(ctx, job.Filter{States: states}, "", completionJobs)
		return lists.Map(list, func(r *job.Record) string { return r.ID }), err
	})
}

func redriveIDs(ctx context.Context, s open.JobStore) ([]string, error) {
	list, err := s.Redrives(ctx, job.RedriveQuery{Limit: completionJobs})
	return lists.Map(list, func(r job.Redrive) string { return r.ID }), err
}

// ofDocument offers names from the document of --policy.
func ofDocument(names func(*policy.Set) []string) candidates {
	return func(ctx context.Context, a *cli.App, cmd *cobra.Command) []string {
		path := open.Text(cmd, "policy")
		if path == "" || path == cli.StandardInput {
			return nil
		}
		document, err := a.Load(ctx, path)
		if err != nil {
			return nil
		}
		return names(document.Set)
	}
}

func policyKeys(set *policy.Set) []string { return lists.Map(set.Keys(), policy.Key.String) }

func pipelinesOf(kind string) candidates {
	return ofDocument(func(set *policy.Set) []string { return pipelines.Named(set, kind) })
}

func periodicNames(ctx context.Context, a *cli.App, cmd *cobra.Command) []string {
	list, err := periodic.Read(ctx, a, open.Text(cmd, "file"))
	if err != nil {
		return nil
	}
	return lists.Map(list, func(p job.Periodic) string { return p.Name })
}
