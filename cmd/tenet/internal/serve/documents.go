package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// DocumentCommands returns the commands of "tenet policy" that work with a server.
func DocumentCommands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		listCommand(a), publishCommand(a), revisionsCommand(a), getCommand(a), compareCommand(a), diffCommand(a), rollbackCommand(a), rolloutCommand(a), trialCommand(a),
		freezeCommand(a), unfreezeCommand(a),
	}
}

// target returns the documents of --server. The first of names, if there is one, names a document.
func target(ctx context.Context, names ...string) (*client.Documents, error) {
	if len(names) > 0 {
		if err := protocol.CheckName(names[0]); err != nil {
			return nil, cli.Usagef("%s", strings.TrimPrefix(err.Error(), "protocol: "))
		}
	}
	c, err := open.Target(ctx)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, cli.Usagef("no server given; write --server URL, or set TENET_SERVER")
	}
	return c.Documents(), nil
}

// published is the output of "policy publish" and "policy rollback".
type published struct {
	api.Published
	Rollout string `json:"rollout,omitempty"` // ID of the rollout that delivers the revision
}

func printPublished(a *cli.App, form string, found api.Published) error {
	p := published{Published: found}
	if found.Rollout != nil {
		p.Rollout = found.Rollout.ID
	}
	return a.Print(form, p, func(w io.Writer) {
		how := "in force"
		switch {
		case p.Rollout != "":
			how = "rolled out in steps; tenet policy rollout show " + p.Name
		case p.Trial:
			how = "under trial; tenet policy trial show " + p.Name
		}
		cli.Fprintf(w, "%s revision %d (%.12s) %s\n", p.Name, p.Revision, p.Hash, how)
	})
}

// changeFlags are the flags of a command that publishes.
type changeFlags struct {
	base    int64
	message string
	rollout rolloutFlags
	form    *string
	dryRun  bool
}

func (f *changeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	open.ServerFlags(cmd)
	flags.Int64Var(&f.base, "base", 0, "revision that is replaced: the command exits with 7 if another one is in force; 0 is none (default: the one in force now)")
	flags.StringVar(&f.message, "message", "", "why, for others")
	f.rollout.add(flags)
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be published, without publishing it")
	f.form = cli.OutputFlag(cmd)
}

// would is the output of a dry run.
type would struct {
	Name string `json:"name"`
	Base int64  `json:"base"` // the revision that would be replaced
}

func (f *changeFlags) printDry(a *cli.App, t client.Target) error {
	return a.Print(*f.form, would{t.Name, t.Base}, cli.AsLine("%s: revision %d would be replaced", t.Name, t.Base))
}

// target returns the documents of --server, and the document and revision to replace.
func (f *changeFlags) target(cmd *cobra.Command, name string) (d *client.Documents, t client.Target, err error) {
	if d, err = target(cmd.Context(), name); err != nil {
		return nil, t, err
	}
	t = client.Target{Name: name, Base: f.base}
	if f.base < 0 {
		return d, t, cli.Usagef("--base %d: write the number of a revision, or 0 for none", f.base)
	}
	if cmd.Flags().Changed("base") {
		return d, t, nil
	}
	state, err := d.Get(cmd.Context(), name)
	if err != nil && !errors.Is(err, policystore.ErrNotFound) {
		return d, t, err
	}
	t.Base = state.Current
	return d, t, nil
}

func publishCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "publish FILE --name NAME", Short: "Publish a document as the next revision", Args: cobra.ExactArgs(1),
		Long: `Publish a document as the next revision. With --rollout the server delivers it to a growing share of the clients, compares
them with the others, and goes back by itself if they do worse. With --trial clients evaluate it beside the revision in force, without
effect, and report what it would have decided otherwise: tenet policy trial show NAME.

Exits with 3 and all faults if the document is invalid or has warnings that --accept-warnings does not accept, and with 7 if
another revision is in force than --base, the document is frozen, or a rollout is running.`,
		Example: `  tenet policy publish policies.yaml --name mail --server https://tenet.example.com
  tenet policy publish policies.yaml --name mail --base 7 --message 'fewer retries' --rollout 1%,10%,50%,100% --hold 10m`,
	}
	f, in := &changeFlags{}, api.Publish{}
	name := cmd.Flags().String("name", "", "name of the document")
	cmd.Flags().BoolVar(&in.Trial, "trial", false, "put the revision under trial: clients evaluate it without effect, and the one in force stays")
	cmd.Flags().BoolVar(&in.AcceptWarnings, "accept-warnings", false, "publish in spite of warnings")
	f.add(cmd)
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if *name == "" {
			return cli.Usagef("--name is missing: the document's name")
		}
		plan, err := f.rollout.plan()
		if err != nil {
			return err
		}
		if plan != nil && in.Trial {
			return cli.Usagef("--trial and --rollout exclude each other: try the revision first, then publish it with --rollout")
		}
		text, err := a.ReadFile(ctx, args[0])
		if err != nil {
			return err
		}
		d, t, err := f.target(cmd, *name)
		if err != nil {
			return err
		}
		if f.dryRun {
			if _, err := a.Parse(args[0], text, nil); err != nil {
				return err
			}
			return f.printDry(a, t)
		}
		in.Body, in.Message, in.Rollout = string(text), f.message, plan
		p, err := d.Publish(ctx, t, in)
		if err != nil {
			return refused(a, args[0], err)
		}
		return printPublished(a, *f.form, p)
	})
}

// refused prints the faults of a document that the server refuses.
func refused(a *cli.App, file string, err error) error {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || p.Status != http.StatusUnprocessableEntity {
		return err
	}
	for _, f := range p.Errors {
		where := file
		if f.Line > 0 {
			where = fmt.Sprintf("%s:%d:%d", file, f.Line, f.Column)
		}
		if f.Path != "" {
			where += ": " + f.Path
		}
		a.Say(slog.LevelError, "", "%s: %s", where, f.Problem)
	}
	return cli.Fail(cli.ExitInvalid, fmt.Errorf("%s was not published: %s", file, p.Detail))
}

func listCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the documents of a server", Args: cobra.NoArgs,
		Example: "  tenet policy list --server https://tenet.example.com",
	}
	return ask(a, cmd, func(ctx context.Context, d *client.Documents, _ []string) ([]policystore.Document, error) {
		return d.List(ctx)
	}, func(w io.Writer, _ []string, list []policystore.Document) {
		cli.Table(w, "NAME\tREVISION\tROLLOUT\tFROZEN\tUPDATED", list, func(d policystore.Document) []any {
			state, frozen := "-", "-"
			if d.Rollout != nil {
				state = fmt.Sprintf("revision %d %s", d.Rollout.Candidate, d.Rollout.State)
			}
			if d.Freeze != nil {
				frozen = cli.OneLine(d.Freeze.Reason)
			}
			return []any{d.Name, d.Current, state, frozen, cli.Clock(d.Updated)}
		})
	})
}

func revisionsCommand(a *cli.App) *cobra.Command {
	return showCommand(a, &cobra.Command{
		Use: "revisions NAME", Short: "List the revisions of a document, newest first",
		Example: "  tenet policy revisions mail --server https://tenet.example.com",
	}, (*client.Documents).Revisions, func(w io.Writer, _ string, list []api.Revision) {
		cli.Table(w, "REVISION\tHASH\tCREATED\tAUTHOR\tMESSAGE", list, func(r api.Revision) []any {
			return []any{r.Revision, fmt.Sprintf("%.12s", r.Hash), cli.Clock(r.Created), r.Author, cli.OneLine(r.Message)}
		})
	})
}

// showCommand makes a command that reads, or changes, what belongs to a document and prints it.
func showCommand[T any](a *cli.App, cmd *cobra.Command, read func(*client.Documents, context.Context, string) (T, error), write func(w io.Writer, name string, found T)) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	return ask(a, cmd, func(ctx context.Context, d *client.Documents, args []string) (T, error) { return read(d, ctx, args[0]) },
		func(w io.Writer, args []string, found T) { write(w, args[0], found) })
}

// ask completes a command that asks a server and prints the answer. Its first argument, if it has any, names a document.
func ask[T any](a *cli.App, cmd *cobra.Command, read func(context.Context, *client.Documents, []string) (T, error), write func(w io.Writer, args []string, found T)) *cobra.Command {
	open.ServerFlags(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		d, err := target(cmd.Context(), args...)
		if err != nil {
			return err
		}
		found, err := read(cmd.Context(), d, args)
		switch {
		case err != nil && len(args) > 0:
			return missing(args[0], err)
		case err != nil:
			return err
		}
		return a.Print(form, found, func(w io.Writer) { write(w, args, found) })
	})
}

// missing says which document does not exist.
func missing(name string, err error) error {
	if errors.Is(err, policystore.ErrNotFound) {
		return cli.Fail(cli.ExitNotFound, fmt.Errorf("document %q: not found, or it has no such revision, rollout or trial", name))
	}
	return err
}

func getCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Print a revision of a document",
		Long:    "Print a revision of a document: the one in force, unless --revision names another. -o json adds who published it, and when.",
		Example: "  tenet policy get mail --revision 6 > old.yaml",
	}
	number := cmd.Flags().Int64("revision", 0, "number of the revision (default: the one in force)")
	return showCommand(a, cmd, func(d *client.Documents, ctx context.Context, name string) (r api.Revision, err error) {
		if *number < 0 {
			return r, cli.Usagef("--revision %d: write the number of a revision", *number)
		}
		if *number == 0 {
			state, err := d.Get(ctx, name)
			if err != nil {
				return r, err
			}
			*number = state.Current
		}
		return d.Revision(ctx, name, *number)
	}, func(w io.Writer, _ string, r api.Revision) { _, _ = io.WriteString(w, r.Body) })
}

func compareCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "compare NAME FROM TO", Short: "Compare two revisions of a document, by field and as text", Args: cobra.ExactArgs(3),
		Example: "  tenet policy compare mail 6 7 --server https://tenet.example.com",
	}
	return ask(a, cmd, func(ctx context.Context, d *client.Documents, args []string) (api.Difference, error) {
		from, fromErr := strconv.ParseInt(args[1], 10, 64)
		to, toErr := strconv.ParseInt(args[2], 10, 64)
		if fromErr != nil || toErr != nil || from < 1 || to < 1 {
			return api.Difference{}, cli.Usagef("write the numbers of two revisions; tenet policy revisions %s lists them", args[0])
		}
		return d.Diff(ctx, args[0], from, to)
	}, func(w io.Writer, _ []string, diff api.Difference) {
		writeFields(w, diff.Fields)
		_, _ = io.WriteString(w, diff.Text)
	})
}

func writeFields(w io.Writer, changes []policyfile.Change) {
	for _, c := range changes {
		cli.Fprintf(w, "%s: %s → %s\n", c.Path, cmp.Or(string(c.From), "-"), cmp.Or(string(c.To), "-"))
	}
}

func rollbackCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rollback NAME --to N", Short: "Publish the content of an old revision anew", Args: cobra.ExactArgs(1),
		Long:    "Publish the content of an old revision anew, under a new number: a client never goes back in numbers.",
		Example: "  tenet policy rollback mail --to 6 --message 'revision 7 overloads the provider'",
	}
	f := &changeFlags{}
	to := cmd.Flags().Int64("to", 0, "number of the revision whose content comes back")
	f.add(cmd)
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		if *to < 1 {
			return cli.Usagef("--to is missing: the number of a revision")
		}
		plan, err := f.rollout.plan()
		if err != nil {
			return err
		}
		d, t, err := f.target(cmd, args[0])
		if err != nil {
			return err
		}
		if f.dryRun {
			return f.printDry(a, t)
		}
		p, err := d.Rollback(cmd.Context(), t, api.Rollback{To: *to, Message: f.message, Rollout: plan})
		if err != nil {
			return missing(args[0], err)
		}
		return printPublished(a, *f.form, p)
	})
}
