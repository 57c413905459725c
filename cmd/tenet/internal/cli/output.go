package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
)

// The output formats.
const (
	FormText  = "text"
	FormJSON  = "json"
	FormJSONL = "jsonl"
	FormYAML  = "yaml"
	formNone  = "none"
)

// OutputFlag adds -o to a command.
func OutputFlag(cmd *cobra.Command) *string {
	form := FormText
	cmd.Flags().VarP(OneOf(&form, FormText, FormJSON, FormJSONL, FormYAML, formNone), "output", "o", "output format; jsonl prints each element of a list on a line")
	return &form
}

// WithOutput is [WithRun] for a command with -o, whose value it passes on.
func WithOutput(cmd *cobra.Command, run func(cmd *cobra.Command, args []string, form string) error) *cobra.Command {
	form := OutputFlag(cmd)
	return WithRun(cmd, func(cmd *cobra.Command, args []string) error { return run(cmd, args, *form) })
}

// Print prints a result to stdout in a format: text writes it as text, and v is encoded in the others.
func (a *App) Print(form string, v any, text func(w io.Writer)) error {
	var out bytes.Buffer
	switch form {
	case FormText:
		text(&out)
	case formNone:
		return nil
	default:
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice && list.IsNil() {
			v = []any{} // not null
		}
		if err := encode(&out, form, v); err != nil {
			return fmt.Errorf("write the result as %s: %w", form, err)
		}
	}
	_, err := a.Stdout.Write(out.Bytes())
	return err
}

// Unprinted adds what was done to the error of a Print that failed, for a change that is not to be repeated.
func Unprinted(done string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s, but it could not be printed: %w", done, err)
}

func encode(w io.Writer, form string, v any) error {
	switch form {
	case FormYAML:
		return encodeYAML(w, v)
	case FormJSONL:
		return encodeLines(w, v)
	}
	e := Lines(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Lines returns an encoder of JSON lines.
func Lines(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

func encodeLines(w io.Writer, v any) error {
	e := Lines(w)
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return e.Encode(v)
	}
	for i := range list.Len() {
		if err := e.Encode(list.Index(i).Interface()); err != nil {
			return err
		}
	}
	return nil
}

// encodeYAML converts JSON to YAML, so that names and order are the same in both.
func encodeYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return err
	}
	block(&node)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&node); err != nil {
		return err
	}
	return e.Close()
}

// yaml11 matches strings that the encoder does not quote but that the many YAML 1.1 readers take for booleans or numbers.
var yaml11 = regexp.MustCompile(`^((?i:y|n|yes|no|on|off)|=|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)$`)

// block drops JSON's braces, and the quotes that YAML does not need.
func block(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || !yaml11.MatchString(n.Value) {
		n.Style = 0
	}
	for _, child := range n.Content {
		block(child)
	}
}

// The values of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// The colors in use, as SGR codes.
const (
	Bold   = "1"
	Faint  = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Cyan   = "36"
)

// Paint escapes text for w, and colors it if w takes colors.
func (a *App) Paint(w io.Writer, color string, text any) Safe {
	plain := Textf("%v", text)
	if !a.colored(w) {
		return plain
	}
	return "\x1b[" + Safe(color) + "m" + plain + "\x1b[0m"
}

func (a *App) colored(w io.Writer) bool {
	switch a.Color {
	case ColorAlways:
		return true
	case ColorNever:
		return false
	}
	if no := a.Env("NO_COLOR"); no != "" {
		return false
	}
	term := a.Env("TERM")
	return term != "dumb" && IsTerminal(w)
}

// IsTerminal reports whether a stream is a terminal. /dev/null, a device too, is not.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
