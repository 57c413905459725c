package policies

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policy"
)

// delaysResult is the output of "policy delays". Durations are in seconds.
type delaysResult struct {
	Key       string    `json:"key"`
	Seed      uint64    `json:"seed"`
	Delays    []float64 `json:"delays"`
	Total     float64   `json:"total"`
	WorstCase float64   `json:"worst_case"`
}

const maxDelays = 1000

func delaysCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delays KEY --policy FILE", Short: "Show the waits before a policy's retries", Args: cobra.ExactArgs(1),
		Long: `Show the waits before the retries of a key's policy for one seed; the same seed always gives the same waits.
The bars show each wait (█) within the longest possible one (░). The worst case is the
longest possible total, the expected total is the mean over all seeds.`,
		Example: "  tenet policy delays user-service.GetUser --policy policies.yaml --seed 42\n  tenet policy delays user-service.GetUser --policy policies.yaml -n 10 -o json",
	}
	file := cli.DocumentFlag(cmd)
	seed := cmd.Flags().Uint64("seed", 0, "seed of the jitter")
	n := cmd.Flags().IntP("count", "n", 0, "number of retries to show (default: all that the policy allows)")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		if cmd.Flags().Changed("count") && (*n < 1 || *n > maxDelays) {
			return cli.Usagef("-n: %d is not between 1 and %d", *n, maxDelays)
		}
		_, p, err := find(cmd.Context(), a, *file, args[0])
		if err != nil {
			return err
		}
		retries := cmp.Or(*n, min(p.Retry.MaxAttempts-1, maxDelays))
		s := newSchedule(p, *seed, retries)
		r := delaysResult{
			Key: p.Key.String(), Seed: *seed, Delays: lists.Map(s.delays, fields.Seconds),
			Total: fields.Seconds(decision.Sum(s.delays...)), WorstCase: fields.Seconds(decision.Sum(s.longest...)),
		}
		return a.Print(form, r, func(w io.Writer) { s.draw(a, w) })
	})
}

// schedule holds the waits of one call, with the longest and mean waits over all seeds.
type schedule struct {
	policy                *policy.Policy
	seed                  uint64
	delays, longest, mean []time.Duration
}

func newSchedule(p *policy.Policy, seed uint64, retries int) schedule {
	s, r := schedule{policy: p, seed: seed}, &p.Retry
	for i := range retries {
		low, high := decision.Bounds(r, i)
		mean := low + (high-low)/2
		if r.Jitter == policy.JitterDecorrelated {
			mean = sampledMean(r, min(i, settled))
		}
		s.delays = append(s.delays, decision.Delay(r, seed, i))
		s.longest = append(s.longest, high)
		s.mean = append(s.mean, mean)
	}
	return s
}

// settled is a retry after which the mean of decorrelated waits does not change.
const settled = 40

// sampledMean returns the mean wait before retry i over a thousand seeds, for waits whose range depends on the previous one.
func sampledMean(r *policy.Retry, i int) time.Duration {
	const seeds = 1000
	total := 0.0
	for k := range seeds {
		total += float64(decision.Delay(r, decision.Seed(strconv.Itoa(k)), i))
	}
	return time.Duration(total / seeds)
}

// barWidth is the width of the longest bar.
const barWidth = 40

// draw writes the waits as bars.
func (s schedule) draw(a *cli.App, w io.Writer) {
	r := &s.policy.Retry
	cli.Fprintf(w, "%s  %s\n", a.Paint(a.Stdout, cli.Bold, s.policy.Key.String()), a.Paint(a.Stdout, cli.Faint,
		fmt.Sprintf("%s ×%g, cap %s, jitter %s, seed %d", r.InitialBackoff, r.BackoffMultiplier, r.MaxBackoff, r.Jitter, s.seed)))
	if len(s.delays) == 0 {
		cli.Fprintln(w, "no retries: one attempt only")
		return
	}
	widest := slices.Max(s.longest)
	for i, d := range s.delays {
		full, whole := cells(d, widest), cells(s.longest[i], widest)
		cli.Fprintf(w, "%5d  %9s  %s%s\n", i+1, cli.Brief(d), a.Paint(a.Stdout, cli.Cyan, strings.Repeat("█", full)), strings.Repeat("░", whole-full))
	}
	cli.Fprintf(w, "total %s, expected %s, worst case %s\n", cli.Brief(decision.Sum(s.delays...)), cli.Brief(decision.Sum(s.mean...)), cli.Brief(decision.Sum(s.longest...)))
	switch {
	case r.OverallTimeout > 0:
		cli.Fprintf(w, "attempts and waits together end after %s (overall_timeout)\n", r.OverallTimeout)
	case r.TimeoutPerAttempt > 0 && !s.policy.Hedge.Enabled && s.policy.Limit.MaxWait == 0: // else attempts take longer: see tenet policy prove
		attempts := slices.Repeat([]time.Duration{r.TimeoutPerAttempt}, len(s.delays)+1)
		most := decision.Sum(append(attempts, s.longest...)...)
		cli.Fprintf(w, "with %d attempts of %s at most: %s\n", len(attempts), r.TimeoutPerAttempt, cli.Brief(most))
	}
}

func cells(d, widest time.Duration) int {
	if widest <= 0 {
		return 0
	}
	return int(math.Round(float64(d) / float64(widest) * barWidth))
}
