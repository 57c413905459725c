package serve

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// rolloutFlags are the flags of a rollout with which a revision is delivered.
type rolloutFlags struct {
	steps      string
	hold       time.Duration
	samples    int64
	thresholds rollout.Thresholds
	confidence float64
}

func (f *rolloutFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.steps, "rollout", "", "deliver the revision in steps of clients, for example 1%,10%,50%,100%")
	flags.Var(cli.Duration(&f.hold), "hold", "how long each step of the rollout lasts at least (default: 5m)")
	flags.Int64Var(&f.samples, "min-samples", 0, "fewest calls in each group before a step is judged (default: 1000)")
	flags.Var((*share)(&f.thresholds.FailureShare), "max-failures", "harmful: more failed calls, in percentage points of all calls (default: 1%)")
	flags.Var((*share)(&f.thresholds.ExtraAttempts), "max-extra-attempts", "harmful: more attempts per call, relative (default: 5%)")
	flags.Var((*share)(&f.thresholds.Latency), "max-latency", "harmful: longer 95th percentile, relative (default: 25%)")
	flags.Var((*share)(&f.thresholds.Openings), "max-openings", "harmful: more breaker openings per call (default: 0.5%)")
	flags.Var((*share)(&f.confidence), "confidence", "confidence of a judgement, for example 99% (default: 99.9%)")
}

// share is a flag such as 1%.
type share float64

// String implements pflag.Value.
func (s *share) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*s)*100, 'g', -1, 64) + "%"
}

// Type implements pflag.Value.
func (*share) Type() string { return "percent" }

// Set implements pflag.Value.
func (s *share) Set(text string) error {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !isPercent || !(value > 0 && value <= 10_000) {
		return errors.New("write a share above 0, such as 1%")
	}
	*s = share(value / 100)
	return nil
}

// plan returns the rollout, or nil without --rollout.
func (f *rolloutFlags) plan() (*api.Plan, error) {
	if f.steps == "" {
		if *f != (rolloutFlags{}) {
			return nil, cli.Usagef("--hold, --min-samples, --max-… and --confidence go with --rollout")
		}
		return nil, nil
	}
	steps, err := rollout.ParseSteps(f.steps, f.hold)
	if err != nil {
		return nil, cli.Usagef("--rollout: %w", err)
	}
	if f.samples < 0 {
		return nil, cli.Usagef("--min-samples %d: write a number above 0", f.samples)
	}
	for i := range steps {
		steps[i].MinSamples = f.samples
	}
	return api.NewPlan(&rollout.Plan{Steps: steps, Thresholds: f.thresholds, Confidence: f.confidence}), nil
}

func rolloutCommand(a *cli.App) *cobra.Command {
	cmd := cli.Group("rollout", "Show, pause, resume and abort the rollout of a document", "", showRolloutCommand(a))
	cmd.AddCommand(
		changeRolloutCommand(a, client.PauseRollout, "Stop a rollout at its step"),
		changeRolloutCommand(a, client.ResumeRollout, "Go on with a paused rollout"),
		changeRolloutCommand(a, client.AbortRollout, "End a rollout, and bring back what was in force before"),
	)
	return cmd
}

func showRolloutCommand(a *cli.App) *cobra.Command {
	return showCommand(a, &cobra.Command{
		Use: "show NAME", Short: "Show the rollout of a document, with its evidence",
		Example: "  tenet policy rollout show mail -o json",
	}, (*client.Documents).Rollout, func(w io.Writer, name string, status api.RolloutStatus) { writeRollout(w, name, &status.Rollout) })
}

func writeRollout(w io.Writer, name string, r *policystore.Rollout) {
	cli.Fprintf(w, "%s: revision %d %s, step %d of %d, compared with revision %d\n", name, r.Candidate, r.State, r.Step+1, len(r.Plan.Steps), r.Base)
	cli.Fprintf(w, "  started %s by %s\n", cli.Clock(r.Started), r.Actor)
	if r.Judgement != nil {
		cli.Fprintf(w, "  last judgement: %s (%s)\n", r.Judgement.Verdict, r.Judgement.Reason)
	}
}

func changeRolloutCommand(a *cli.App, action client.RolloutAction, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use: string(action) + " NAME", Short: short,
		Long:    short + ".\n\nExits with 7 if the document has no rollout in a state that allows it.",
		Example: "  tenet policy rollout " + string(action) + " mail",
	}
	dryRun := cmd.Flags().Bool("dry-run", false, "show the rollout without changing it")
	return showCommand(a, cmd, func(d *client.Documents, ctx context.Context, name string) (any, error) {
		if *dryRun {
			return d.Rollout(ctx, name)
		}
		return d.ChangeRollout(ctx, name, action)
	}, func(w io.Writer, name string, found any) {
		switch found := found.(type) {
		case api.RolloutStatus: // of a dry run
			writeRollout(w, name, &found.Rollout)
		case policystore.Document:
			writeRollout(w, name, found.Rollout)
		}
	})
}
