package ui

import (
	"github.com/tenetdev/tenet/prove"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

type policyProof struct {
	documentHead
	Shown   int64 // the revision
	Proof   api.Proof
	Broken  []finding // violations
	Hold    []finding
	Next    string
	Command string
}

// finding is a verdict with a link to the place that it is about.
type finding struct {
	api.Finding
	Link string
	Kind string // of the badge
}

func policyProofPage() *page {
	return documentPage("Proof", page{path: "policies/{name}/proof", file: "policy-proof"}, func(r *request, h documentHead) (any, error) {
		out := policyProof{documentHead: h, Shown: h.Current}
		if n := r.number("revision"); n > 0 {
			out.Shown = n
		}
		out.Command = commandLine(r.getCommand(h.Name)) + " | " + commandLine([]string{"policy", "prove", "-", "--all"})
		query := params.Of("limit", "200", "cursor", r.query.Get("cursor"))
		if err := r.get(documentPath(h.Name, "/revisions/"+decimal(out.Shown)+"/proof"), query, &out.Proof); err != nil {
			return nil, err
		}
		for _, f := range out.Proof.Findings {
			row := finding{Finding: f, Link: r.ui.href("policies/"+h.Name+"/text", "revision", decimal(out.Shown)) + "#L" + decimal(int64(f.Line))}
			switch {
			case f.Verdict == prove.Holds:
				out.Hold = append(out.Hold, row)
				continue
			case f.Accepted != "":
				row.Kind = "cool"
			case f.Severity == prove.Error:
				row.Kind = "bad"
			default:
				row.Kind = "warn"
			}
			out.Broken = append(out.Broken, row)
		}
		out.Next = r.next("policies/"+h.Name+"/proof", out.Proof.Next, "revision", r.query.Get("revision"))
		return out, nil
	})
}
