package serve

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/policyfile"
)

// difference is the output of "policy diff".
type difference struct {
	From     string              `json:"from"` // revision: a hash
	To       string              `json:"to"`
	Fields   []policyfile.Change `json:"fields"`
	Recorded *audit.WhatIfReport `json:"recorded,omitempty"`
}

func diffCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "diff A B", Short: "Compare two documents by field, and by what B decides on recorded history",
		Args: cobra.MatchAll(cobra.ExactArgs(2), cli.OneStdin),
		Long: `Compare two documents or revisions, field by field. A and B are files, or server:URL/NAME@REV for a revision of a server's
document; without @REV it is the one in force. With --server, NAME@REV is enough. Layout and comments do not count.

With --audit, also repeat the recorded work of that log under B, by key: the decisions that change, with the reason recorded and the
reason now, the attempts and the waiting time. The comparison is with the record, whatever policies were in force then. What
the record cannot know is counted: see tenet audit replay --what-if.`,
		Example: "  tenet policy diff old.yaml new.yaml\n  tenet policy diff mail@6 mail@7 --server https://tenet.example.com --audit server:",
	}
	open.ServerFlags(cmd)
	log := cmd.Flags().String("audit", "", "repeat the recorded work of this log under B: a path, "+open.UseLog.Forms()+"; "+open.OfServer+" is the log of --server")
	cli.ExplicitFlags(cmd, "audit")
	limit := cmd.Flags().Int("limit", 20, "how many keys to list, those with the most changes first")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		if *limit < 1 {
			return cli.Usagef("--limit %d: write a number above 0", *limit)
		}
		var documents [2]*policyfile.Document
		for i, name := range args {
			var err error
			if documents[i], err = open.Document(cmd.Context(), a, open.DocumentRef{Name: name, Token: open.Text(cmd, "token")}); err != nil {
				return err
			}
		}
		out := difference{From: documents[0].Set.Revision(), To: documents[1].Set.Revision()}
		var err error
		if out.Fields, err = policyfile.Diff(documents[0], documents[1]); err != nil {
			return err
		}
		if *log != "" {
			err = open.WithAuditLog(cmd.Context(), a, *log, func(log *open.AuditLog) (err error) {
				out.Recorded, err = audit.WhatIf(cmd.Context(), log, documents[1].Set, audit.ReplayOptions{Limit: *limit})
				if err != nil {
					return err
				}
				return log.CheckLines(out.Recorded.Lines, out.Recorded.Unreadable)
			})
			if err != nil {
				return err
			}
		}
		return a.Print(form, out, func(w io.Writer) { writeDifference(w, &out) })
	})
}

func writeDifference(w io.Writer, d *difference) {
	writeFields(w, d.Fields)
	if len(d.Fields) == 0 {
		cli.Fprintln(w, "the documents mean the same")
	}
	r := d.Recorded
	if r == nil {
		return
	}
	cli.Fprintf(w, "\ncalls, jobs and steps on record: %d; %d of %d decisions change\n", r.Total.Works, r.Decisions.Changed, r.Decisions.Compared)
	cli.Table(w, "KEY\tWORK\tSAME\tDECISIONS CHANGED\tLOST SUCCESSES\tCANNOT KNOW\tATTEMPTS\tWAITING", r.Keys, func(k audit.WhatIfKey) []any {
		return []any{
			k.Key, k.Works, k.Same, fmt.Sprintf("%d of %d", k.Changed, k.Compared), k.LostSuccesses, k.CannotKnow,
			fmt.Sprintf("%d → %d", k.Before.Attempts, k.After.Attempts),
			fmt.Sprintf("%s → %s", cli.Brief(time.Duration(k.Before.Waiting)), cli.Brief(time.Duration(k.After.Waiting))),
		}
	})
	if r.KeysOmitted > 0 {
		cli.Fprintf(w, "%s not listed\n", cli.Count(r.KeysOmitted, "key"))
	}
	for _, k := range r.Keys {
		for _, c := range k.Changes {
			cli.Fprintf(w, "%s: %d × %s → %s\n", k.Key, c.Count, c.Recorded, c.Now)
		}
	}
	for _, u := range slices.Sorted(maps.Keys(r.Decisions.Unknown)) {
		cli.Fprintf(w, "cannot know: %d, because %s\n", r.Decisions.Unknown[u], u)
	}
	if r.Decisions.Refused > 0 {
		cli.Fprintf(w, "assumed: %d ended with an attempt that a budget, a breaker or a limit refused, and would be refused again\n", r.Decisions.Refused)
	}
	if r.Unreadable > 0 {
		cli.Fprintf(w, "unreadable lines: %d; see audit verify\n", r.Unreadable)
	}
}
