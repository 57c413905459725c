package jobs

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/job"
)

// grammar explains filters in the help of commands that take them.
const grammar = `FILTER selects jobs by terms, all of which hold:

  state:dead queue:mail type:mail:* error:timeout meta.tenant:acme payload.order.id:42 before:2h

Commas separate alternatives (state:dead,cancelled), double quotes enclose values with spaces, and a * at the end of a queue,
type or key matches any rest. The fields are id, state, queue, type, key (the unique key), error (a part of the last error),
cause (of a dead job, as "tenet dlq list --group -o json" names it), flow (the ID of its flow), meta.NAME, payload.NAME.NAME,
before and after (when the job was created).`

// FilterFlags are the flags that select jobs.
type FilterFlags struct {
	queue, jobType, err string
	before, after       string
	states              []string
	text                string // in the grammar of filters
	flags               *pflag.FlagSet
}

// AddFilterFlags adds the flags that select jobs.
func AddFilterFlags(cmd *cobra.Command) *FilterFlags {
	flags := cmd.Flags()
	f := &FilterFlags{flags: flags}
	flags.StringVar(&f.queue, "queue", "", "only jobs of this queue")
	flags.StringVar(&f.jobType, "type", "", "only jobs of this type")
	flags.StringVar(&f.err, "error", "", "only jobs whose last error contains this")
	flags.StringVar(&f.before, "created-before", "", "only jobs created before this time, or longer ago than this duration (24h)")
	flags.StringVar(&f.after, "created-after", "", "only jobs created after this time, or within this duration (24h)")
	flags.StringVar(&f.text, "filter", "", "only jobs that this filter selects, such as 'meta.tenant:acme payload.order.id:42'")
	return f
}

// add adds terms from the arguments of a command.
func (f *FilterFlags) add(terms []string) {
	f.text = strings.TrimSpace(strings.Join(terms, " ") + " " + f.text)
}

// Filter returns the filter of all flags, for jobs in the given states that the flags select too.
func (f *FilterFlags) Filter(states ...job.State) (job.Filter, error) {
	for _, name := range []string{"queue", "type", "error", "created-before", "created-after", "filter"} {
		if flag := f.flags.Lookup(name); flag.Changed && strings.TrimSpace(flag.Value.String()) == "" { // for example from an unset variable in a script
			return job.Filter{}, cli.Usagef("--%s is empty: write a value, or leave the flag out", name)
		}
	}
	if f.flags.Changed("state") && len(f.states) == 0 {
		return job.Filter{}, cli.Usagef("--state is empty: write a state, or leave the flag out")
	}
	out, err := job.ParseFilter(f.text, time.Now())
	if err != nil {
		return out, cli.Usagef("%w", err)
	}
	out.Queue, out.Type, out.ErrorContains = f.queue, f.jobType, f.err
	for _, s := range f.states {
		state, err := job.ParseState(s)
		if err != nil {
			return out, cli.Usagef("--state: %w", err)
		}
		states = append(states, state)
	}
	if out.States, err = inBoth(out.States, states); err != nil {
		return out, err
	}
	before, err := cli.Moment("created-before", f.before)
	if err != nil {
		return out, err
	}
	after, err := cli.Moment("created-after", f.after)
	if !before.IsZero() && (out.CreatedBefore.IsZero() || before.Before(out.CreatedBefore)) {
		out.CreatedBefore = before
	}
	if after.After(out.CreatedAfter) {
		out.CreatedAfter = after
	}
	return out, err
}

// inBoth returns the states of a filter that the command or --state selects too. An empty list stands for all states.
func inBoth(filter, command []job.State) ([]job.State, error) {
	if len(filter) == 0 || len(command) == 0 {
		return append(filter, command...), nil
	}
	both := slices.DeleteFunc(slices.Clone(filter), func(s job.State) bool { return !slices.Contains(command, s) })
	if len(both) == 0 {
		return nil, cli.Usagef("the filter selects jobs that are %s, but this command or --state those that are %s; leave the state out of the filter",
			joined(filter, " or "), joined(command, " or "))
	}
	return both, nil
}

// Any reports whether the flags narrow the selection at all.
func (f *FilterFlags) Any() bool {
	return f.queue != "" || f.jobType != "" || f.err != "" || f.before != "" || f.after != "" || len(f.states) > 0 || f.text != ""
}
