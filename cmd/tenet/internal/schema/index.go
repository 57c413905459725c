package schema

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
)

// indexesJSON is what "migrate index" prints.
type indexesJSON struct {
	Indexes []string `json:"indexes"` // of the store, or that it would have
}

func indexCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "index [FIELD…]", Short: "Index fields of payloads and metadata for searches, or list what is indexed", Args: cobra.ArbitraryArgs,
		Long: `Index fields of payloads and metadata, so that "jobs search" finds their values at once among any number of jobs. Without
a field, list what is indexed. Each index costs every insert a little.

On PostgreSQL workers go on while an index is made; an SQLite file cannot be written meanwhile. Both take seconds for each
million jobs.`,
		Example: "  tenet migrate index payload.order.id meta.tenant\n  tenet migrate index --drop meta.tenant",
	}
	store := open.StoreFlag(cmd)
	drop := cmd.Flags().Bool("drop", false, "remove the indexes")
	dryRun := cmd.Flags().Bool("dry-run", false, "print what would be indexed then, without changing it")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, fields []string, form string) error {
		for _, field := range fields {
			if _, err := job.IndexedField(field); err != nil {
				return cli.Usagef("%w", err)
			}
		}
		if *drop && len(fields) == 0 {
			return cli.Usagef("--drop: name the fields")
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			list, err := changeIndexes(cmd.Context(), s, fields, indexChange{drop: *drop, dryRun: *dryRun})
			if err != nil {
				return err
			}
			return a.Print(form, indexesJSON{list}, func(w io.Writer) {
				if len(list) == 0 {
					cli.Fprintln(w, "none")
				}
				for _, field := range list {
					cli.Fprintln(w, field)
				}
			})
		})
	})
}

type indexChange struct{ drop, dryRun bool }

// changeIndexes returns the indexed fields after the change.
func changeIndexes(ctx context.Context, s open.JobStore, fields []string, c indexChange) ([]string, error) {
	indexer, ok := s.(job.Indexer)
	if !ok {
		return nil, errors.New("this store has no indexes on fields")
	}
	for _, field := range fields {
		if c.dryRun {
			break
		}
		if err := indexer.SetIndex(ctx, field, !c.drop); err != nil {
			return nil, fmt.Errorf("index %s: %w", field, err)
		}
	}
	list, err := s.Indexes(ctx)
	if c.dryRun && !c.drop {
		list = append(list, fields...)
	}
	if c.dryRun && c.drop {
		list = slices.DeleteFunc(list, func(field string) bool { return slices.Contains(fields, field) })
	}
	slices.Sort(list)
	return append([]string{}, slices.Compact(list)...), err
}
