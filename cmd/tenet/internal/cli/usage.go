package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// explainArguments replaces cobra's errors about arguments: they do not name the argument.
func explainArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if _, ok := errors.AsType[*Failure](err); ok || err == nil {
				return err
			}
			return argumentError(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		explainArguments(sub)
	}
}

// CheckNeeds returns a usage error if one of names is given and the flag that they need is empty.
func CheckNeeds(flags *pflag.FlagSet, needed string, names ...string) error {
	if flags.Lookup(needed).Value.String() != "" {
		return nil
	}
	for _, name := range names {
		if flags.Changed(name) {
			return Usagef("--%s needs --%s", name, needed)
		}
	}
	return nil
}

// argumentError names the argument that is missing or unexpected, as the command's use line does.
func argumentError(cmd *cobra.Command, args []string) error {
	all := operands(cmd.Use)
	required := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return strings.HasPrefix(name, "[") })
	if len(args) < len(required) {
		return Usagef("%s is missing; write: %s", required[len(args)], cmd.UseLine())
	}
	return Usagef("unexpected argument %q; write: %s", args[min(len(all), len(args)-1)], cmd.UseLine())
}

// operands lists the arguments in a use line such as "explain [LOG] ID --policy FILE".
func operands(use string) (names []string) {
	words := strings.Fields(use)
	for i, word := range words[1:] {
		if !strings.Contains(word, "--") && !strings.Contains(words[i], "--") { // neither a flag nor its value
			names = append(names, word)
		}
	}
	return names
}

// flagError returns an error that says what is wrong with a flag and what to write instead.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
		return unknownCommand(cmd, cmd.Flags().Arg(0))
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := unknown.GetSpecifiedName()
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return Usagef("unknown flag %s%s of %q%s", dashes, name, cmd.CommandPath(), nearFlags(cmd, name))
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		f := missing.GetFlag()
		return Usagef("--%s needs a value; write --%s %s", f.Name, f.Name, valueOf(f))
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return Usagef("--%s %w", wrong.GetFlag().Name, wrongValue(wrong))
	}
	if _, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return Usagef("a flag without a name; write --name value or --name=value")
	}
	return Usagef("%w", err)
}

// wrongValue returns an error about the value of a flag, with the remedy.
func wrongValue(e *pflag.InvalidValueError) error {
	remedy := e.Unwrap().Error()
	switch e.GetFlag().Value.Type() {
	case "int", "int64":
		remedy = "write a whole number"
	case "uint", "uint64":
		remedy = "write a whole number, 0 or more"
	case "float64":
		remedy = "write a number"
	case "bool":
		remedy = "write true or false"
	case "stringSlice":
		remedy = "write values separated by commas"
	}
	return errors.New(`"` + e.GetValue() + `": ` + remedy)
}

// valueOf returns the placeholder for the value of a flag.
func valueOf(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	if name == "" {
		return "VALUE"
	}
	return strings.ToUpper(name)
}

// nearFlags suggests flags with a name close to an unknown one.
func nearFlags(cmd *cobra.Command, name string) string {
	if len(name) < 2 {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return DidYouMean(Near(name, names), "--")
}

// Near returns the names that are close to an unknown one.
func Near(name string, names []string) []string {
	all := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra can only suggest commands
	for _, n := range names {
		all.AddCommand(&cobra.Command{Use: n, Run: func(*cobra.Command, []string) {}})
	}
	return slices.Sorted(slices.Values(all.SuggestionsFor(name)))
}

// DidYouMean formats suggestions for an error. Without names it returns "".
func DidYouMean(names []string, prefix string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}
