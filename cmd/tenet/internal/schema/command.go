package schema

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/migrate"
)

// Command returns "tenet migrate".
func Command(a *cli.App) *cobra.Command {
	up := &cobra.Command{
		Use: "up", Short: "Create or update the store's tables", Args: cobra.NoArgs,
		Long:    "Create the store's tables, or update them to the newest version. Several processes may do so at once. A missing\nSQLite file is created.",
		Example: "  tenet migrate up --store postgres://localhost/app\n  tenet migrate up --dry-run --show-sql",
	}
	down := &cobra.Command{
		Use: "down", Short: "Revert the store's tables by one version", Args: cobra.NoArgs,
		Long:    "Revert the store's tables by one version. Reverting the first version removes all jobs. Stop all workers first.",
		Example: "  tenet migrate down --store postgres://localhost/app --dry-run --show-sql",
	}
	return cli.Group("migrate", "Create, update and revert a store's tables", "", stepsCommand(a, up, migrate.Up), stepsCommand(a, down, migrate.Down), migrateStatusCommand(a), indexCommand(a))
}

func stepsCommand(a *cli.App, cmd *cobra.Command, d migrate.Direction) *cobra.Command {
	store := open.StoreFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "print what would be done, without doing it")
	showSQL := cmd.Flags().Bool("show-sql", false, "print the statements")
	yes := new(bool)
	if d == migrate.Down {
		yes = cmd.Flags().Bool("yes", false, "do not ask")
	}
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) error {
		return open.WithDatabase(cmd.Context(), a, open.Options{URL: *store, Create: d == migrate.Up, DryRun: *dryRun}, func(db open.Database) error {
			if d == migrate.Down && !*dryRun {
				if err := a.Confirm(cmd.Context(), *yes, "Take the tables back by one version? Jobs may be removed."); err != nil {
					return err
				}
			}
			steps, err := db.Migrate(cmd.Context(), d, *dryRun)
			if err != nil {
				return err
			}
			list := append([]migrate.Step{}, steps...)
			for i := range list {
				if !*showSQL {
					list[i].SQL = ""
				}
			}
			return a.Print(form, list, func(w io.Writer) { writeSteps(w, list, *dryRun) })
		})
	})
}

func writeSteps(w io.Writer, list []migrate.Step, dryRun bool) {
	if len(list) == 0 {
		cli.Fprintln(w, "nothing to do")
	}
	for _, s := range list {
		verb := "applied"
		if dryRun {
			verb = "would apply"
		}
		cli.Fprintf(w, "-- %s %s\n", verb, s)
		if s.SQL != "" {
			cli.Fprintln(w, cli.Safe(s.SQL)) // from this program
		}
	}
}

func migrateStatusCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "List the versions of the store's tables", Args: cobra.NoArgs,
		Long:    "List the versions of the store's tables. Exits with 4 if one is not applied.",
		Example: "  tenet migrate status --store postgres://localhost/app",
	}
	store := open.StoreFlag(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) error {
		return open.WithDatabase(cmd.Context(), a, open.Options{URL: *store}, func(db open.Database) error {
			list, err := db.MigrationStatus(cmd.Context())
			if err != nil {
				return err
			}
			behind := slices.ContainsFunc(list, func(s migrate.Status) bool { return !s.Applied })
			err = a.Print(form, list, cli.AsTable("VERSION\tNAME\tAPPLIED", list, func(v migrate.Status) []any { return []any{v.Version, v.Name, cli.Clock(v.AppliedAt)} }))
			if err == nil && behind {
				return cli.Exit(cli.ExitThreshold)
			}
			return err
		})
	})
}
