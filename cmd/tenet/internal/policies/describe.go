package policies

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"

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
	if document == nil {
		fields.Each("", reflect.ValueOf(*p), func(path string, v reflect.Value) { cli.Fprintf(table, "  %s\t%s\n", path, fields.Text(v)) })
	} else {
		for _, v := range document.Values(p) {
			cli.Fprintf(table, "  %s\t%s\t%s\n", v.Field, v.Text, originOf(v))
		}
	}
	_ = table.Flush() // w is a buffer
	for _, path := range p.Meta.Clamped {
		cli.Fprintf(w, "%s %s was outside the limits\n", a.Paint(a.Stdout, cli.Yellow, "clamped:"), path)
	}
}

// originOf says where a value was taken from.
func originOf(v policyfile.Value) string {
	switch {
	case v.Path != "":
		return fmt.Sprintf("%s, line %d", v.Path, v.Line)
	case v.Category != "":
		return "catalog " + string(v.Category)
	}
	return "built in"
}

// FieldOf formats the value of a retry field by its path, for messages.
func FieldOf(r policy.Retry, path string) string {
	field, ok := fields.At(reflect.ValueOf(r), strings.TrimPrefix(path, "retry."))
	if !ok {
		return "its value"
	}
	return fields.Text(field)
}
