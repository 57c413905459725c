package policies

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/policyfile"
)

func formatCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "fmt FILE…", Short: "Lay policy documents out", Args: cobra.MatchAll(cobra.MinimumNArgs(1), cli.OneStdin),
		Long: `Lay policy documents out: fields in the order of the reference, two spaces of indentation, an empty line between sections.
Names keep their order, comments their place, and policies their meaning. The result of one file goes to stdout, unless
--write or --check is given. The file - is stdin. An invalid document is refused, and no file is written then.`,
		Example: "  tenet policy fmt policies.yaml\n  tenet policy fmt --write *.yaml\n  tenet policy fmt --check *.yaml",
	}
	write := cmd.Flags().BoolP("write", "w", false, "write the results to the files, and list those that have changed")
	dryRun := cmd.Flags().Bool("dry-run", false, "with --write: only list the files that would change")
	check := cmd.Flags().Bool("check", false, "only list the files that would change, and exit with 4 if there are any")
	cmd.MarkFlagsMutuallyExclusive("write", "check")
	return cli.WithRun(cmd, func(cmd *cobra.Command, names []string) error {
		if len(names) > 1 && !*write && !*check {
			return cli.Usagef("several files are laid out with --write or --check only")
		}
		if *write && slices.Contains(names, cli.StandardInput) {
			return cli.Usagef("--write: stdin cannot be written to")
		}
		changed := map[string][]byte{}
		for _, name := range names {
			before, err := a.ReadFile(cmd.Context(), name)
			if err != nil {
				return err
			}
			after, err := policyfile.Format(name, before, policyfile.Options{})
			if err != nil {
				return a.Refused(err)
			}
			switch {
			case !*write && !*check:
				_, err := a.Stdout.Write(after)
				return err
			case !bytes.Equal(before, after):
				changed[name] = after
			}
		}
		for _, name := range names {
			after, ok := changed[name]
			if ok && *write && !*dryRun {
				if err := files.Write(name, after); err != nil {
					return fmt.Errorf("--write: %w", cli.NotMade(name, err))
				}
			}
			if ok {
				cli.Fprintln(a.Stdout, cli.Textf("%s", name))
			}
		}
		if *check && len(changed) > 0 {
			return cli.Exit(cli.ExitThreshold)
		}
		return nil
	})
}
