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

// argumentError names the argument that is missing or unexpected, as the command's use line does.
func argumentError(cmd *cobra.Command, args []string) error {
	names := operands(cmd.Use)
	if len(args) < len(names) {
		return Usagef("%s: %s is missing; write: %s", cmd.CommandPath(), names[len(args)], cmd.UseLine())
	}
	return Usagef("%s: unexpected argument %q; write: %s", cmd.CommandPath(), args[max(len(names), 0)], cmd.UseLine())
}

// operands lists the required arguments in a use line such as "show KEY --policy FILE".
func operands(use string) (names []string) {
	words := strings.Fields(use)[1:]
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "["), strings.HasPrefix(word, "-"), i > 0 && strings.HasPrefix(words[i-1], "--"):
		default:
			names = append(names, word)
		}
	}
	return names
}

// flagError returns an error that says what is wrong with a flag and what to write instead.
func flagError(cmd *cobra.Command, err error) error {
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
	return &valueError{e.GetValue(), remedy}
}

type valueError struct{ value, remedy string }

func (e *valueError) Error() string { return `"` + e.value + `": ` + e.remedy }

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
	// cobra can only suggest commands, so each flag becomes a command here.
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	near := names.SuggestionsFor(name)
	slices.Sort(near)
	return DidYouMean(near, "--")
}

// DidYouMean formats suggestions for an error. Without names it returns "".
func DidYouMean(names []string, prefix string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}
