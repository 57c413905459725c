package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/server/api"
)

// Program is one run of the command line, with everything that it takes from its process.
type Program struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(name string) string // nil is an empty environment
	// Kill is closed when the user asks a second time to stop.
	Kill    <-chan struct{}
	Hangups *Hangups // nil if the process receives no SIGHUP
	// AddCommands adds the commands and their completions to the root.
	AddCommands func(a *App, root *cobra.Command)
}

// The exit codes that all commands share.
const (
	ExitFailed     = 1
	ExitUsage      = 2
	ExitInvalid    = 3
	ExitThreshold  = 4
	ExitNotFound   = 5
	exitNotAllowed = 6
	ExitConflict   = 7
)

// Failure is an error with an exit code. Its error is nil if the command has already printed the cause.
type Failure struct {
	Code int
	err  error
}

func (f *Failure) Error() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f *Failure) Unwrap() error { return f.err }

// usageError is a mistake in the command line. The program points to --help after printing it.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// Fail returns err with an exit code.
func Fail(code int, err error) error { return &Failure{code, err} }

// AsUsage returns err as a usage error, unless it already has an exit code.
func AsUsage(err error) error {
	if _, ok := errors.AsType[*Failure](err); ok || err == nil {
		return err
	}
	return Usagef("%w", err)
}

// Exit returns a failure with an exit code, for a command that has already printed the cause.
func Exit(code int) error { return &Failure{Code: code} }

// Usagef returns a usage error: exit code 2 and a pointer to --help.
func Usagef(format string, args ...any) error {
	return Fail(ExitUsage, &usageError{fmt.Errorf(format, args...)})
}

// Env returns the value of an environment variable, or "" if it is not set.
func (p Program) Env(name string) string {
	if p.Getenv == nil {
		return ""
	}
	return p.Getenv(name)
}

// App is what the commands of one run share.
type App struct {
	Program
	Color, Config       string
	LogFormat, LogLevel string
	stdinTaken          bool
	out                 output
}

// Run runs the command line until ctx ends, and returns its exit code. If the cause of ctx is a command.Interrupt, running
// commands receive that signal, and it decides the exit code.
func (p Program) Run(ctx context.Context) int {
	a := &App{Program: p, Color: ColorAuto, LogFormat: FormText, LogLevel: "info"}
	root := a.Root()
	root.SetArgs(p.Args)
	failed, err := root.ExecuteContextC(ctx)
	if a.out.err != nil {
		err = Fail(ExitFailed, a.out.err)
	}
	if err == nil {
		return 0
	}
	f, ok := errors.AsType[*Failure](err)
	if !ok { // cobra's own errors are about usage
		err = Usagef("%w", err)
		f, _ = errors.AsType[*Failure](err)
	}
	interrupt, interrupted := errors.AsType[command.Interrupt](context.Cause(ctx))
	if interrupted && errors.Is(err, context.Canceled) && !errors.Is(err, interrupt) {
		err = fmt.Errorf("%w: %w", interrupt, err)
	}
	a.fail(err)
	if _, ok := errors.AsType[*usageError](err); ok && !a.Structured() {
		if failed.Name() == "help" {
			failed = failed.Root()
		}
		Fprintf(p.Stderr, "Run '%s --help' for usage.\n", failed.CommandPath())
	}
	if interrupted {
		return command.ExitCode(interrupt)
	}
	return f.Code
}

// output is stdout as cobra writes to it: help, --version and completions. It keeps the first error, which cobra ignores or
// returns like a usage error.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(text []byte) (int, error) {
	n, err := o.Writer.Write(text)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// Root builds the tree of commands.
func (a *App) Root() *cobra.Command {
	root := Group("tenet", "Run work that can fail under policies that are data", `Tenet runs work that can fail under policies that are data: a document says how often, how fast and for
how long each operation may be repeated.

Settings come from flags, then from the environment, then from the config file. TENET_STORE, TENET_POLICY,
TENET_AUDIT, TENET_SERVER, TENET_TOKEN, TENET_CONFIG, TENET_LOG_FORMAT and TENET_LOG_LEVEL set the flag of that name for every command; run,
worker, consume, produce and server read their own flags from TENET_<COMMAND>_<FLAG> (TENET_WORKER_CONCURRENCY). The config
file is $XDG_CONFIG_HOME/tenet/config.yaml; its fields are the names of flags, for every command or below the name
of one command:

  color: never
  run: {max-attempts: 5, timeout: 30s}

Exit codes: 0 done, 1 failed, 2 usage, 3 invalid document, 4 a threshold fired, 5 not found, 6 not allowed, 7 conflict, 130 and 143 stopped by a signal.`)
	root.Example = `  tenet run --max-attempts 5 --timeout 10s -- curl -fsS https://example.com
  tenet policy check policies.yaml
  tenet demo`
	root.SilenceErrors, root.SilenceUsage = true, true
	a.out.Writer = a.Stdout
	root.SetOut(&a.out)
	root.SetErr(a.Stderr)
	root.Version = VersionOf().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().Var(OneOf(&a.Color, ColorAuto, ColorAlways, ColorNever), "color", "color the output: auto, always or never; NO_COLOR turns auto off")
	root.PersistentFlags().StringVar(&a.Config, "config", "", "config file (default: $XDG_CONFIG_HOME/tenet/config.yaml; also TENET_CONFIG)")
	root.PersistentFlags().Var(OneOf(&a.LogFormat, FormText, FormJSON), "log-format", "format of logs on stderr: text or json (also TENET_LOG_FORMAT)")
	root.PersistentFlags().Var(OneOf(&a.LogLevel, logLevels()...), "log-level", "lowest level to log: debug, info, warn or error (also TENET_LOG_LEVEL)")
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		err := a.Configure(cmd)
		if _, ok := a.Stderr.(*os.File); ok { // it is the process's, as is the logger of packages that were given none
			slog.SetDefault(a.Logger(a.Stderr, false))
		}
		return err
	}
	root.AddCommand(a.versionCommand())
	a.AddCommands(a, root)
	root.InitDefaultHelpCmd() // cobra adds both commands only when it runs; they are changed below
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.RunE = helpOf
		case "completion":
			asGroup(cmd)
		}
	}
	explainArguments(root)
	return root
}

// Group returns a command that only holds other commands.
func Group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long}
	asGroup(cmd)
	cmd.AddCommand(commands...)
	return cmd
}

// asGroup makes a command show its help, and refuse unknown subcommands.
func asGroup(cmd *cobra.Command) {
	cmd.Args, cmd.SuggestionsMinimumDistance = cobra.ArbitraryArgs, 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
}

func unknownCommand(parent *cobra.Command, name string) error {
	return Usagef("unknown command %q for %q%s", name, parent.CommandPath(), DidYouMean(parent.SuggestionsFor(name), ""))
}

// helpOf shows the help of the command that args name.
func helpOf(help *cobra.Command, args []string) error {
	cmd, rest, err := help.Root().Find(args)
	switch {
	case err != nil:
		return Usagef("%w", err)
	case len(rest) > 0:
		return unknownCommand(cmd, rest[0])
	}
	return cmd.Help()
}

// WithRun sets what a command does, and returns the command. Errors of run that have no exit code get one, and the remedy that a server
// names.
func WithRun(cmd *cobra.Command, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if _, ok := errors.AsType[*Failure](err); ok || err == nil {
			return err
		}
		code := exitOf(err)
		if p, refused := errors.AsType[*api.Problem](err); refused && p.Remedy != "" {
			err = fmt.Errorf("%w: %s", err, p.Remedy)
		}
		return Fail(code, err)
	}
	return cmd
}

// exitOf returns the exit code for an error of a store or a log, or for a server's refusal.
func exitOf(err error) int {
	status := 0
	if p, refused := errors.AsType[*api.Problem](err); refused {
		status = p.Status
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, errors.Is(err, controlplane.ErrNotAllowed):
		return exitNotAllowed
	case status == http.StatusNotFound, errors.Is(err, job.ErrNotFound), errors.Is(err, audit.ErrNoWork), errors.Is(err, policy.ErrPolicyNotFound):
		return ExitNotFound
	case status == http.StatusConflict, status == http.StatusPreconditionFailed, errors.Is(err, job.ErrConflict):
		return ExitConflict
	}
	return ExitFailed
}
