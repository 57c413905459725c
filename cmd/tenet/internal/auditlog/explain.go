package auditlog

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policyfile"
)

func explainCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain [LOG] ID", Short: "Explain the attempts and decisions of one call, job or transaction", Args: cobra.RangeArgs(1, 2),
		Long: `Explain one call, job or transaction: each attempt with its outcome, each decision with its reason and wait, and the field
of the policy that decided it. With --policy, also the file and line of that field in the document.`,
		Example: "  tenet audit explain audit.jsonl 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --policy policies.yaml",
	}
	file := cli.DocumentFlag(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		url, id := logAndID(args)
		if url != "" && !looksLikeLog(url) && looksLikeLog(id) {
			url, id = id, url
		}
		var document *policyfile.Document
		if *file != "" {
			var err error
			if document, err = a.Load(cmd.Context(), *file); err != nil {
				return err
			}
		}
		return open.WithAuditLog(cmd.Context(), a, url, func(log *open.AuditLog) error {
			story, err := audit.Explain(cmd.Context(), log.Direct(), id)
			if err != nil {
				return err
			}
			if document != nil {
				locate(a, story, *file, document)
			}
			log.WarnLeftOut(a, story.Unreadable)
			return a.Print(form, story, func(w io.Writer) { writeStory(a, w, story) })
		})
	})
}

// looksLikeLog distinguishes a log from an ID, so that the arguments can be in either order.
func looksLikeLog(s string) bool {
	if open.IsLogURL(s) {
		return true
	}
	_, err := os.Stat(s)
	return err == nil
}

// locate adds the places of fields in the document to a story, and warns of fields whose values have changed since.
func locate(a *cli.App, s *audit.Story, file string, document *policyfile.Document) {
	warned := map[string]bool{}
	for i := range s.Steps {
		key := document.Set.KeyNamed(cmp.Or(s.Steps[i].Key, s.Key))
		now := map[string]string{}
		fields.Each("", reflect.ValueOf(*cli.PolicyOf(document.Set, key)), func(path string, v reflect.Value) { now[path] = fields.Text(v) })
		for j := range s.Steps[i].Fields {
			f := &s.Steps[i].Fields[j]
			path, line := document.Origin(key, f.Path)
			if path == "" {
				continue
			}
			f.Source = fmt.Sprintf("%s:%d: %s", file, line, path)
			if f.Value != "" && f.Value != now[f.Path] && !warned[path] {
				warned[path] = true
				a.Warn("%s:%d: %s is now %s; the log records %s", file, line, f.Path, cmp.Or(now[f.Path], "-"), f.Value)
			}
		}
	}
}

func writeStory(a *cli.App, w io.Writer, s *audit.Story) {
	cli.Fprintf(w, "%s  %s %s\n", a.Paint(a.Stdout, cli.Bold, s.WorkID), s.Surface, s.Key)
	for _, part := range []struct{ name, value string }{
		{"category", s.Category}, {"operation", s.Operation}, {"tenant", s.TenantID}, {"correlation", s.CorrelationID},
		{"trace", s.TraceID}, {"policy", s.PolicyID}, {"revision", s.Revision},
	} {
		if part.value != "" {
			cli.Fprintf(w, "  %-12s%s\n", part.name, part.value)
		}
	}
	for i := range s.Steps {
		writeStep(a, w, &s.Steps[i], s.Key)
	}
	cli.Fprintf(w, "%s", a.Paint(a.Stdout, cli.Bold, s.Result))
	if s.Reason != "" {
		cli.Fprintf(w, " (%s)", s.Reason)
	}
	for _, last := range slices.Backward(s.Steps) {
		if last.Decision != "" {
			writeKey(w, last.Key, s.Key)
			break
		}
	}
	cli.Fprintf(w, " after %s and %s of waiting\n", cli.Count(s.Attempts, "attempt"), cli.Brief(time.Duration(s.Waiting)))
}

// writeKey writes a step's key if it differs from the first key of the story.
func writeKey(w io.Writer, key, first string) {
	if key != "" && key != first {
		cli.Fprintf(w, "  %s", key)
	}
}

func writeStep(a *cli.App, w io.Writer, s *audit.Step, first string) {
	cli.Fprintf(w, "%s  %s", a.Paint(a.Stdout, cli.Faint, momentOf(s.Time)), s.Type)
	writeKey(w, s.Key, first)
	if s.Attempt > 0 {
		cli.Fprintf(w, "  attempt %d", s.Attempt)
	}
	if s.Hedge > 0 {
		cli.Fprintf(w, ", hedge %d", s.Hedge)
	}
	if s.Outcome != "" {
		cli.Fprintf(w, "  %s (%s)", s.Outcome, s.Why)
	}
	if s.Class != "" {
		cli.Fprintf(w, ", %s", s.Class)
	}
	if s.Error != "" {
		cli.Fprintf(w, "  %q", cli.OneLine(s.Error))
	}
	if s.Detail != "" {
		cli.Fprintf(w, "  %s", s.Detail)
	}
	cli.Fprintln(w)
	switch {
	case s.Wait > 0:
		cli.Fprintf(w, "    → %s after %s (%s)\n", s.Decision, time.Duration(s.Wait), s.Reason)
	case s.Decision != "":
		cli.Fprintf(w, "    → %s (%s)\n", s.Decision, s.Reason)
	}
	for _, f := range s.Fields {
		cli.Fprintf(w, "      by %s", f.Path)
		if f.Value != "" {
			cli.Fprintf(w, " = %s", f.Value)
		}
		if f.Source != "" {
			cli.Fprintf(w, "  %s", a.Paint(a.Stdout, cli.Cyan, f.Source))
		}
		cli.Fprintln(w)
	}
}
