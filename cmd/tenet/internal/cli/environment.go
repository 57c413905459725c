package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// SharedFlags are the flags that one variable sets for every command that has them: TENET_ and the flag's name.
func SharedFlags() []string {
	return []string{"store", "policy", "audit", "server", "token", "config", "log-format", "log-level"}
}

// ownVariables lists the commands whose flags have variables TENET_<COMMAND>_<FLAG>: those that service managers and containers
// start.
func ownVariables() []string {
	return []string{"tenet run", "tenet worker", "tenet consume", "tenet produce", "tenet server"}
}

// explicit marks a flag that only the command line and the command's section of the config file can set, because a setting
// for other commands would change what this command does.
const explicit = "tenet_explicit"

// ExplicitFlags marks flags of a command as explicit.
func ExplicitFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.Flags().SetAnnotation(name, explicit, []string{"true"}) // the flag exists
	}
}

func isExplicit(f *pflag.Flag) bool { return f.Annotations[explicit] != nil }

// Variables lists the environment variables of a command's flag, in order of precedence. Most flags have none.
func Variables(cmd *cobra.Command, f *pflag.Flag) []string {
	if isExplicit(f) || f.Hidden {
		return nil
	}
	var names []string
	name := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
	own := cmd.LocalNonPersistentFlags().Lookup(f.Name) != nil && f.Name != "help" && f.Name != "dry-run"
	if own && slices.Contains(ownVariables(), cmd.CommandPath()) {
		names = append(names, "TENET_"+strings.ToUpper(cmd.Name())+"_"+name)
	}
	if slices.Contains(SharedFlags(), f.Name) {
		names = append(names, "TENET_"+name)
	}
	return names
}

// environment returns the first of a flag's variables that is set and not empty.
func (a *App) environment(cmd *cobra.Command, f *pflag.Flag) (setting, bool) {
	for _, name := range Variables(cmd, f) {
		if value := a.Env(name); value != "" {
			return setting{value, name}, true
		}
	}
	return setting{}, false
}
