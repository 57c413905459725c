package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policyfile"
)

func (a *app) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain LOG ID", Short: "Tell the story of one call, job or transaction", Args: cobra.ExactArgs(2),
		Long: `Tell the story of one call, job or transaction: each attempt, what it meant, what was decided and why, how long was waited,
and the field of the policy that made it so. With --policy, the file and line where the document has that field.`,
		Example: "  tenet audit explain audit.jsonl 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --policy policies.yaml",
	}
	file := documentFlag(cmd)
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		url, id := args[0], args[1]
		if !looksLikeLog(url) && looksLikeLog(id) {
			url, id = id, url
		}
		var document *policyfile.Document
		if *file != "" {
			var err error
			if document, err = a.load(cmd.Context(), *file); err != nil {
				return err
			}
		}
		return a.withAuditLog(cmd.Context(), url, func(log *auditLog) error {
			story, err := audit.Explain(cmd.Context(), log, id)
			if errors.Is(err, audit.ErrNoWork) {
				return fail(exitNotFound, err)
			}
			if err != nil {
				return err
			}
			if document != nil {
				a.locate(story, *file, document)
			}
			if story.Unreadable > 0 {
				a.warn("%s: lines that are not events were left out: %d; tenet audit verify says whether they were changed", log.name, story.Unreadable)
			}
			return a.print(*form, story, func(w io.Writer) { a.writeStory(w, story) })
		})
	})
	return cmd
}

// looksLikeLog tells a log from an ID, which people write in either order.
func looksLikeLog(s string) bool {
	if isStored(s) || strings.HasPrefix(s, "file:") {
		return true
	}
	_, err := os.Stat(s)
	return err == nil
}

// locate notes where a document has the fields of a story, and warns of those that say something else by now.
func (a *app) locate(s *audit.Story, file string, document *policyfile.Document) {
	warned := map[string]bool{}
	for i := range s.Steps {
		key := document.Set.KeyNamed(cmp.Or(s.Steps[i].Key, s.Key))
		now := map[string]string{}
		if p, err := policyOf(document.Set, key); err == nil {
			eachField("", reflect.ValueOf(*p), func(path string, v reflect.Value) { now[path] = show(v) })
		}
		for j := range s.Steps[i].Fields {
			f := &s.Steps[i].Fields[j]
			path, line := document.Origin(key, f.Path)
			if path == "" {
				continue
			}
			f.Source = fmt.Sprintf("%s:%d: %s", file, line, path)
			if f.Value != "" && f.Value != now[f.Path] && !warned[path] {
				warned[path] = true
				a.warn("%s:%d: %s is %s by now; %s is on record", file, line, f.Path, orDash(now[f.Path]), f.Value)
			}
		}
	}
}

func (a *app) writeStory(w io.Writer, s *audit.Story) {
	fprintf(w, "%s  %s %s\n", a.paint(a.stdout, bold, s.WorkID), s.Surface, s.Key)
	for _, part := range []struct{ name, value string }{
		{"category", s.Category}, {"operation", s.Operation}, {"tenant", s.TenantID}, {"correlation", s.CorrelationID},
		{"trace", s.TraceID}, {"policy", s.PolicyID}, {"revision", s.Revision},
	} {
		if part.value != "" {
			fprintf(w, "  %-12s%s\n", part.name, part.value)
		}
	}
	for i := range s.Steps {
		a.writeStep(w, &s.Steps[i], s.Key)
	}
	fprintf(w, "%s", a.paint(a.stdout, bold, s.Result))
	if s.Reason != "" {
		fprintf(w, " (%s)", s.Reason)
	}
	for _, last := range slices.Backward(s.Steps) {
		if last.Decision != "" {
			a.writeKey(w, last.Key, s.Key)
			break
		}
	}
	fprintf(w, " after %s and %s of waiting\n", count(s.Attempts, "attempt"), brief(time.Duration(s.Waiting)))
}

// writeKey names a step's key where it is not the one that the story begins with.
func (a *app) writeKey(w io.Writer, key, first string) {
	if key != "" && key != first {
		fprintf(w, "  %s", key)
	}
}

func (a *app) writeStep(w io.Writer, s *audit.Step, first string) {
	fprintf(w, "%s  %s", a.paint(a.stdout, faint, momentOf(s.Time)), s.Type)
	a.writeKey(w, s.Key, first)
	if s.Attempt > 0 {
		fprintf(w, "  attempt %d", s.Attempt)
	}
	if s.Hedge > 0 {
		fprintf(w, ", hedge %d", s.Hedge)
	}
	if s.Outcome != "" {
		fprintf(w, "  %s (%s)", s.Outcome, s.Why)
	}
	if s.Class != "" {
		fprintf(w, ", %s", s.Class)
	}
	if s.Error != "" {
		fprintf(w, "  %q", oneLine(s.Error))
	}
	if s.Detail != "" {
		fprintf(w, "  %s", s.Detail)
	}
	fprintln(w)
	switch {
	case s.Wait > 0:
		fprintf(w, "    → %s after %s (%s)\n", s.Decision, time.Duration(s.Wait), s.Reason)
	case s.Decision != "":
		fprintf(w, "    → %s (%s)\n", s.Decision, s.Reason)
	}
	for _, f := range s.Fields {
		fprintf(w, "      by %s", f.Path)
		if f.Value != "" {
			fprintf(w, " = %s", f.Value)
		}
		if f.Source != "" {
			fprintf(w, "  %s", a.paint(a.stdout, cyan, f.Source))
		}
		fprintln(w)
	}
}
