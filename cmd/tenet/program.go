package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
)

// program is the command line, with everything that it takes from its process.
type program struct {
	// kill is closed when the user asks a second time to stop.
	kill      <-chan struct{}
	lookupEnv func(string) (string, bool)
	hangups   *hangups // nil where no SIGHUP comes
}

// The exit codes that all commands share.
const (
	exitFailed     = 1
	exitUsage      = 2
	exitInvalid    = 3
	exitThreshold  = 4
	exitNotFound   = 5
	exitNotAllowed = 6
	exitConflict   = 7
)

// failure is an error with its exit code. Without an error, everything has been said already.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// usageError is a mistake in how a command was called; its help is offered.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// fail is the failure of a command with an exit code.
func fail(code int, err error) error { return &failure{code, err} }

// exit is a failure with an exit code and nothing left to say.
func exit(code int) error { return &failure{code: code} }

func usage(format string, args ...any) error {
	return fail(exitUsage, &usageError{fmt.Errorf(format, args...)})
}

// app is what the commands of one run share.
type app struct {
	program
	stdin          io.Reader
	stdout, stderr io.Writer
	color, config  string
	logFormat      string
	logLevel       string
}

// Run runs the command line and returns its exit code. ctx ends it; where the cause is a command.Interrupt, that is
// handed on to running commands and decides the exit code.
func (p program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{program: p, stdin: stdin, stdout: stdout, stderr: stderr, color: colorAuto, logFormat: formText, logLevel: "info"}
	root := a.root()
	root.SetArgs(args)
	failed, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	f, ok := errors.AsType[*failure](err)
	if !ok { // cobra's own errors are about usage
		err = usage("%w", err)
		f, _ = errors.AsType[*failure](err)
	}
	a.fail(err)
	if _, ok := errors.AsType[*usageError](err); ok && !a.structured() {
		if failed.Name() == "help" {
			failed = failed.Root()
		}
		fprintf(stderr, "Run '%s --help' for usage.\n", failed.CommandPath())
	}
	if interrupt, ok := errors.AsType[command.Interrupt](context.Cause(ctx)); ok {
		return command.ExitCode(interrupt)
	}
	return f.code
}

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := group("tenet", "Run work that can fail under policies that are data", `Tenet runs work that can fail under policies that are data: a document says how often, how fast and for
how long anything may be repeated.

Settings come from flags, then from the environment, then from the config file. TENET_STORE, TENET_POLICY,
TENET_AUDIT, TENET_CONFIG, TENET_LOG_FORMAT and TENET_LOG_LEVEL set the flag of that name for every command; run,
worker, consume and produce take their own flags as TENET_<COMMAND>_<FLAG> (TENET_WORKER_CONCURRENCY). The config
file is $XDG_CONFIG_HOME/tenet/config.yaml; its fields are the names of flags, either for every command or under
the name of one:

  color: never
  run: {max-attempts: 5, timeout: 30s}

Exit codes: 0 done, 1 failed, 2 usage, 3 invalid document, 4 a threshold fired, 5 not found, 6 not allowed, 7 conflict, 130 and 143 stopped by a signal.`)
	root.Example = `  tenet run --max-attempts 5 --timeout 10s -- curl -fsS https://example.com
  tenet policy check policies.yaml
  tenet demo`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.Version = versionOf().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().Var(oneOf(&a.color, colorAuto, colorAlways, colorNever), "color", "color the output: auto, always or never; NO_COLOR turns auto off")
	root.PersistentFlags().StringVar(&a.config, "config", "", "config file (default: $XDG_CONFIG_HOME/tenet/config.yaml; also TENET_CONFIG)")
	root.PersistentFlags().Var(oneOf(&a.logFormat, formText, formJSON), "log-format", "form of logs on stderr: text or json (also TENET_LOG_FORMAT)")
	root.PersistentFlags().Var(oneOf(&a.logLevel, logLevels()...), "log-level", "log this and what is worse: debug, info, warn or error (also TENET_LOG_LEVEL)")
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.configure(cmd) }
	defer func() {
		ownWords(root)
		a.complete(root)
	}()
	root.AddCommand(a.runCommand(), a.policyCommand(), a.demoCommand(), a.versionCommand(), a.enqueueCommand(), a.jobsCommand(), a.workerCommand(),
		a.dlqCommand(), a.queuesCommand(), a.periodicCommand(), a.migrateCommand(), a.idempotencyCommand(), a.auditCommand(), a.consumeCommand(), a.produceCommand(), a.pipelineCommand())
	root.InitDefaultHelpCmd() // now rather than when the command line runs, so that both are in Tenet's own words
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.RunE = helpOf
		case "completion":
			holdOthers(cmd)
		}
	}
	return root
}

// group is a command that only holds others.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long}
	holdOthers(cmd)
	cmd.AddCommand(commands...)
	return cmd
}

// holdOthers makes a command show its help and refuse the names of commands that it does not hold.
func holdOthers(cmd *cobra.Command) {
	cmd.Args, cmd.SuggestionsMinimumDistance = cobra.ArbitraryArgs, 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
}

func unknownCommand(parent *cobra.Command, name string) error {
	return usage("unknown command %q for %q%s", name, parent.CommandPath(), didYouMean(parent.SuggestionsFor(name), ""))
}

// helpOf shows the help of the command that args name.
func helpOf(help *cobra.Command, args []string) error {
	cmd, rest, err := help.Root().Find(args)
	switch {
	case err != nil:
		return usage("%w", err)
	case len(rest) > 0:
		return unknownCommand(cmd, rest[0])
	}
	return cmd.Help()
}

// runE marks whatever a command returns as a failure of its work, unless it says otherwise.
func runE(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if _, ok := errors.AsType[*failure](err); ok || err == nil {
			return err
		}
		return fail(exitFailed, err)
	}
}
