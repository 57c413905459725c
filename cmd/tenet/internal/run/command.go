package run

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/policy"
)

// runFlags are the flags of "tenet run".
type runFlags struct {
	document                cli.Document
	key                     string
	maxAttempts             int
	timeout, overallTimeout time.Duration
	backoff, backoffCap     time.Duration
	multiplier              float64
	jitter                  string
	retryExit               string
	timeline, timelineFile  string
	killGrace               time.Duration
	audit, limits, shadow   string
	record                  recordFlags
	verbose, dryRun         bool
	changed                 func(flag string) bool
	codes                   command.Codes
}

// Command returns "tenet run".
func Command(a *cli.App) *cobra.Command {
	f := &runFlags{killGrace: cli.DefaultKillGrace}
	cmd := &cobra.Command{
		Use: "run [flags] -- COMMAND [ARGUMENT…]", Short: "Run a command until it succeeds or its policy stops it",
		Long: `Run a command until it exits with 0 or its policy stops it.

The policy is that of the key in the document (--policy); without a document it is 3 attempts, with waits of about
1s and 2s between them. Flags change it field by field. Commands have wider limits than calls: up to 1,000 attempts and
waits of up to a day. The key is "run." and the command's name unless --key says otherwise.

Every attempt gets TENET_ATTEMPT (from 1), TENET_KEY and TENET_CALL_ID in its environment. They do not configure a nested
tenet, and TENET_RUN_… variables are not passed on. The command's output passes through. Every attempt reads the same stdin:
files are read again, other input is buffered, up to 10 MiB (with --max-attempts 1 it passes through without a limit). A
terminal is not passed on.

An attempt that times out is stopped with all processes that it started: SIGTERM first, SIGKILL after --kill-grace.
Ctrl-C and SIGTERM are passed on in the same way and end the run; a second one kills at once. Hedging is off for
commands, because the outputs of two attempts would mix. A command whose reader has gone (SIGPIPE, as in "| head") is not
run again, unless --retry-exit lists 141.

With --idempotency-key and --idempotency-store a command that has succeeded under the key is not run again: the
run says so and exits with 0. A command that is running elsewhere under the key, or whose outcome is unknown because an
earlier run was killed, is not run either (125).

Exit codes: that of the last attempt where the run failed; 124 it timed out; 125 no attempt was made; 126 it could
not be started; 127 it was not found; 2 usage; 3 invalid document; 5 the server has no such document; 6 the server refuses
access to it; 130 and 143 stopped by SIGINT or SIGTERM.`,
		Example: `  tenet run -- make test
  tenet run --max-attempts 5 --timeout 10s --backoff 500ms --backoff-cap 5s -- curl -fsS https://example.com
  tenet run --retry-exit 75,100-110 --timeline text -- ./deliver.sh
  tenet run --idempotency-key invoice-4711 --idempotency-store sqlite:records.db --audit file:audit.jsonl -- ./charge.sh
  tenet run --policy policies.yaml --key backup.Upload -- rclone sync data remote:data < list.txt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return cli.Usagef("no command given; write it after --, for example: tenet run -- make test")
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	f.document.Flags(cmd, "policy document to use")
	flags.StringVar(&f.key, "key", "", "key of the policy (default: run.COMMAND)")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "maximum number of attempts, the first included")
	flags.Var(cli.DurationOrNone(&f.timeout), "timeout", "how long one attempt may take, or none")
	flags.Var(cli.DurationOrNone(&f.overallTimeout), "overall-timeout", "how long all attempts and the waits between them may take, or none")
	flags.Var(cli.Duration(&f.backoff), "backoff", "wait before the first retry (default 1s)")
	flags.Var(cli.Duration(&f.backoffCap), "backoff-cap", "longest wait (default 1m)")
	flags.Float64Var(&f.multiplier, "multiplier", 0, "how much longer each wait is than the one before (default 2)")
	flags.Var(cli.OneOf(&f.jitter, policy.Jitter("").Values()...), "jitter", "how waits are spread: full, equal, proportional, decorrelated or none")
	flags.StringVar(&f.retryExit, "retry-exit", "", "retry only these exit codes, for example 1,75,100-110 (default: all but 0)")
	flags.Var(cli.OneOf(&f.timeline, cli.FormText, cli.FormJSON), "timeline", "print what happened: text or json, to stderr or --timeline-file")
	flags.StringVar(&f.timelineFile, "timeline-file", "", "write the timeline to this file, as JSON unless --timeline says text")
	flags.Var(cli.Duration(&f.killGrace), "kill-grace", "how long a stopped attempt may take to end before it is killed")
	audit, limits, shadow := open.DecisionLogFlag(cmd), open.LimitsFlag(cmd), open.ShadowFlag(cmd)
	f.record.add(cmd)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log every attempt to stderr")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the policy that would be used, without running the command")
	return cli.WithRun(cmd, func(cmd *cobra.Command, argv []string) error {
		f.changed, f.audit, f.limits, f.shadow = flags.Changed, *audit, *limits, *shadow
		r, err := newRunner(cmd.Context(), a, f, argv)
		if err != nil {
			return err
		}
		return r.run(cmd.Context())
	})
}
