package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/internal/files"
)

// setting is a value with its source: a variable, or a place in the config file.
type setting struct{ value, place string }

// Configure sets the flags that the command line does not set, from the environment or else from the config file.
func (a *App) Configure(cmd *cobra.Command) error {
	if f := cmd.Flags().Lookup("config"); !f.Changed { // needed to find the file
		if s, ok := a.environment(cmd, f); ok {
			a.Config = s.value
		}
	}
	file, ignored, err := a.readConfig(cmd.Root())
	if err != nil {
		return err
	}
	var faults []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Name == "config" {
			return
		}
		if s, ok := a.environment(cmd, f); ok {
			faults = append(faults, set(cmd, f, s))
			return
		}
		if no := a.Env("NO_COLOR"); f.Name == "color" && no != "" {
			return // the environment takes precedence over the file
		}
		if s, ok := lookup(file, cmd, f); ok {
			faults = append(faults, set(cmd, f, s))
		}
	})
	if ignored != nil { // logs have their format now
		a.Warn("config file: %v; it is ignored: name another with --config or TENET_CONFIG, or set HOME", ignored)
	}
	return errors.Join(faults...)
}

func set(cmd *cobra.Command, f *pflag.Flag, s setting) error {
	if err := cmd.Flags().Set(f.Name, s.value); err != nil {
		if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = wrongValue(wrong)
		}
		return Usagef("%s: %w", s.place, err)
	}
	return cmd.Flags().SetAnnotation(f.Name, elsewhere, []string{s.place})
}

// elsewhere marks a flag that the environment or the config file has set.
const elsewhere = "tenet_elsewhere"

// Given reports whether a flag stands on the command line.
func Given(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && f.Changed && f.Annotations[elsewhere] == nil
}

// lookup finds the setting of a command's flag: in the command's section first, then in the enclosing ones. The key of a
// setting is the command's path below the root, followed by the flag's name.
func lookup(file map[string]setting, cmd *cobra.Command, f *pflag.Flag) (setting, bool) {
	path := strings.Fields(cmd.CommandPath())[1:]
	least := 0
	if isExplicit(f) {
		least = len(path)
	}
	for n := len(path); n >= least; n-- {
		if s, ok := file[strings.Join(append(slices.Clone(path[:n]), f.Name), " ")]; ok {
			return s, true
		}
	}
	return setting{}, false
}

// readConfig reads the config file, if there is one. It ignores a default path that lies in a folder of another user, and returns
// the reason: where only HOME was inherited, this user has no config file.
func (a *App) readConfig(root *cobra.Command) (settings map[string]setting, ignored, err error) {
	path := cmp.Or(a.Config, a.defaultConfig())
	if path == "" {
		return nil, nil, nil
	}
	text, err := files.Read(path, MaxInput)
	switch {
	case a.Config == "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)): // HOME may be /dev/null
		return nil, nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, Fail(ExitNotFound, fmt.Errorf("config file %s does not exist", path))
	case errors.Is(err, fs.ErrPermission):
		if _, hidden := os.Stat(path); errors.Is(hidden, fs.ErrPermission) && a.Config == "" {
			return nil, err, nil
		}
		return nil, nil, Usagef("config file: %w; make it readable, or name another with --config or TENET_CONFIG", err)
	case err != nil:
		return nil, nil, Usagef("config file: %w", err)
	}
	document, err := ReadYAML(text)
	if err != nil {
		return nil, nil, Usagef("%s: %w", path, err)
	}
	c := config{path: path, settings: map[string]setting{}}
	if document != nil {
		c.section(root, nil, document)
	}
	return c.settings, nil, errors.Join(c.faults...)
}

// ReadYAML returns the only document of a text, or nil if the text is empty.
func ReadYAML(text []byte) (*yaml.Node, error) {
	var document, next yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if err = decoder.Decode(&next); err == nil {
			return nil, fmt.Errorf("line %d: more than one document; keep one per file", next.Line)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return document.Content[0], nil
}

// defaultConfig returns the default path of the config file, or "" if there is no home directory.
func (a *App) defaultConfig() string {
	directory := a.Env("XDG_CONFIG_HOME")
	if directory == "" {
		home := a.Env("HOME")
		if home == "" {
			return ""
		}
		directory = filepath.Join(home, ".config")
	}
	return filepath.Join(directory, "tenet", "config.yaml")
}

// config collects the settings and faults of a config file.
type config struct {
	path     string
	settings map[string]setting
	faults   []error
}

// section reads the settings of a command and of those below it.
func (c *config) section(cmd *cobra.Command, path []string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		c.fault(n, "expected flags and their values, one on each line")
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		below := append(slices.Clone(path), key.Value)
		sub, isSection := child(cmd, key.Value), value.Kind == yaml.MappingNode
		text, plain := scalar(value)
		switch {
		case isSection && sub != nil:
			c.section(sub, below, value)
		case isSection:
			c.fault(key, fmt.Sprintf("%q is not a command of %q%s", key.Value, cmd.CommandPath(), DidYouMean(cmd.SuggestionsFor(key.Value), "")))
		case !hasFlag(cmd, key.Value) && sub != nil:
			c.fault(value, fmt.Sprintf("%s: expected the flags of the command and their values, as in {color: never}", key.Value))
		case !hasFlag(cmd, key.Value):
			c.fault(key, fmt.Sprintf("%q is not a flag of %q or of its commands", key.Value, cmd.CommandPath()))
		case !plain:
			c.fault(value, key.Value+": expected a plain value or a list of them")
		default:
			c.settings[strings.Join(below, " ")] = setting{text, c.place(value)}
		}
	}
}

func (c *config) place(n *yaml.Node) string { return fmt.Sprintf("%s:%d:%d", c.path, n.Line, n.Column) }

func (c *config) fault(n *yaml.Node, problem string) {
	c.faults = append(c.faults, Usagef("%s: %s", c.place(n), problem))
}

// scalar returns a value in the form of the command line.
func scalar(n *yaml.Node) (string, bool) {
	if n.Kind == yaml.ScalarNode {
		return n.Value, true
	}
	if n.Kind != yaml.SequenceNode {
		return "", false
	}
	var parts []string
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return "", false
		}
		parts = append(parts, item.Value)
	}
	return strings.Join(parts, ","), true
}

func child(cmd *cobra.Command, name string) *cobra.Command {
	i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	if i < 0 {
		return nil
	}
	return cmd.Commands()[i]
}

func hasFlag(cmd *cobra.Command, name string) bool {
	if cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
		return true
	}
	return slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return hasFlag(c, name) })
}
