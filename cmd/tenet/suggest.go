package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func didYouMean(names []string, prefix string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}

// unknownFlag makes a usage error of what the flag parser returned, with the nearest flags where one is unknown.
func unknownFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return usage("%w", err)
	}
	// cobra knows which commands are near to a name; flags are looked up as if they were commands.
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return usage("%w%s", err, didYouMean(names.SuggestionsFor(unknown.GetSpecifiedName()), "--"))
}
