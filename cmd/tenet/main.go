// Command tenet runs commands, stored jobs and pipelines under policies that are data, and checks policy documents and audit
// logs. "tenet --help" lists its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/auditlog"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/cmd/tenet/internal/complete"
	"github.com/tenetdev/tenet/cmd/tenet/internal/demo"
	"github.com/tenetdev/tenet/cmd/tenet/internal/dlq"
	"github.com/tenetdev/tenet/cmd/tenet/internal/flows"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobs"
	"github.com/tenetdev/tenet/cmd/tenet/internal/limits"
	"github.com/tenetdev/tenet/cmd/tenet/internal/periodic"
	"github.com/tenetdev/tenet/cmd/tenet/internal/pipelines"
	"github.com/tenetdev/tenet/cmd/tenet/internal/policies"
	"github.com/tenetdev/tenet/cmd/tenet/internal/queues"
	"github.com/tenetdev/tenet/cmd/tenet/internal/records"
	"github.com/tenetdev/tenet/cmd/tenet/internal/run"
	"github.com/tenetdev/tenet/cmd/tenet/internal/schema"
	"github.com/tenetdev/tenet/cmd/tenet/internal/serve"
	"github.com/tenetdev/tenet/cmd/tenet/internal/simulation"
	"github.com/tenetdev/tenet/cmd/tenet/internal/workers"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	kill := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	p := cli.Program{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		Kill: kill, Hangups: cli.NewHangups(), AddCommands: addCommands,
	}
	next := func() syscall.Signal { // skips SIGHUPs that a command takes
		for {
			if s, _ := (<-signals).(syscall.Signal); s != syscall.SIGHUP || !p.Hangups.Take() {
				return s
			}
		}
	}
	go func() { // runs until the process ends
		handleSignals(next, func(s syscall.Signal) { cancel(command.Interrupt{Signal: s}) }, func() { close(kill) })
		signal.Reset() // a third signal ends this process even if something hangs
	}()
	os.Exit(p.Run(ctx))
}

// duplicateWindow is the time after the first signal in which further signals count as copies of it: timeout(1) signals its command
// and, at once, the process group that the command is in.
const duplicateWindow = 100 * time.Millisecond

// handleSignals calls stop at the first signal and kill at the second.
func handleSignals(next func() syscall.Signal, stop func(syscall.Signal), kill func()) {
	stop(next())
	first := time.Now()
	for next(); time.Since(first) < duplicateWindow; next() {
	}
	kill()
}

// addCommands adds every command group to the root, and its completions when a shell asks for them, because to register them takes as
// long as everything else here.
func addCommands(a *cli.App, root *cobra.Command) {
	root.AddCommand(limits.Command(a))
	policyCommand := policies.Command(a)
	policyCommand.AddCommand(serve.DocumentCommands(a)...)
	root.AddCommand(run.Command(a), policyCommand, policies.MapCommand(a), demo.Command(a), jobs.EnqueueCommand(a), jobs.Command(a), workers.Command(a),
		dlq.Command(a), dlq.RedrivesCommand(a), queues.Command(a), flows.Command(a), periodic.Command(a), schema.Command(a), records.Command(a), auditlog.Command(a), simulation.Command(a))
	root.AddCommand(pipelines.Commands(a)...)
	root.AddCommand(serve.Command(a), serve.TokenCommand(a), serve.ClientsCommand(a))
	if len(a.Args) > 0 && (a.Args[0] == cobra.ShellCompRequestCmd || a.Args[0] == cobra.ShellCompNoDescRequestCmd) {
		complete.Add(a, root)
	}
}
