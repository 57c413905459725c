package policies

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// Describe writes a policy as a table of its fields, with their origins where the document is known.
func Describe(a *cli.App, w io.Writer, p *policy.Policy, document *policyfile.Document) {
	cli.Fprintf(w, "%s  %s\n", a.Paint(a.Stdout, cli.Bold, p.Key.String()), a.Paint(a.Stdout, cli.Faint, "source "+string(p.Meta.Source)))
	if p.Meta.Revision != "" {
		cli.Fprintf(w, "%s\n", a.Paint(a.Stdout, cli.Faint, "revision "+p.Meta.Revision))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	EachField("", reflect.ValueOf(*p), func(path string, v reflect.Value) {
		origin := cli.Safe("")
		if document != nil {
			origin = "\tbuilt in"
			if from, line := document.Origin(p.Key, path); from != "" {
				origin = cli.Textf("\t%s, line %d", from, line)
			}
		}
		cli.Fprintf(table, "  %s\t%s%s\n", path, Show(v), origin)
	})
	_ = table.Flush() // w is a buffer
	for _, path := range p.Meta.Clamped {
		cli.Fprintf(w, "%s %s was outside the limits\n", a.Paint(a.Stdout, cli.Yellow, "clamped:"), path)
	}
}

// EachField calls f with every field that has a value, and its path in documents. It skips hedging and breakers that are off.
func EachField(prefix string, v reflect.Value, f func(path string, v reflect.Value)) {
	for _, field := range fields.Of(v.Type()) {
		value, path := v.Field(field.Index), prefix+field.Name
		off := path == "hedge" && !value.FieldByName("Enabled").Bool() || path == "circuit" && value.FieldByName("Kind").String() == ""
		switch {
		case off, value.IsZero():
		case value.Kind() == reflect.Struct:
			EachField(path+".", value, f)
		default:
			f(path, value)
		}
	}
}

// Show formats the value of a field as documents do.
func Show(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return value.String()
	case []policy.Class:
		names := make([]string, len(value))
		for i, c := range value {
			names[i] = string(c)
		}
		return strings.Join(names, ", ")
	default:
		return fmt.Sprint(value)
	}
}

// FieldOf formats the value of a retry field by its path, for messages.
func FieldOf(r policy.Retry, path string) string {
	v := reflect.ValueOf(r)
	for _, f := range fields.Of(v.Type()) {
		if "retry."+f.Name == path {
			return Show(v.Field(f.Index))
		}
	}
	return "its value"
}
