package ui

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// editor is the form in which a person writes the next revision of a document. It is shown again with what publishing the text
// would do, and only then publishes it:
//
//	GET ─► text in force ─► POST review ─► faults, or the differences ─► POST publish ─► published
//	                             ▲                                            │ text changed since, another revision in force
//	                             └────────────────────────────────────────────┘
type editor struct {
	Document            *policystore.Document // nil for a new one
	Name, Text, Message string
	NameFault           string
	Base                int64 // the revision that the text replaces
	Plan                planForm
	Steps               bool // deliver in steps
	Trial               bool // evaluate it without effect
	Defaults            rollout.Plan
	Clients             int64
	Reviewed            string // names the text and base that the review is about
	Review              *review
	Faults, Warnings    []placedFault
	Conflict            *conflict
}

// review is what publishing the text would do.
type review struct {
	Revision, Base int64
	Same           bool // nothing differs
	difference
}

// conflict says that another revision has come into force since the person began.
type conflict struct {
	Began   int64
	InForce api.Revision
	Change  difference // between the two
}

// placedFault is a fault with the line that it is in.
type placedFault struct {
	api.Fault
	Source, Caret string
}

// starter is the text of a new document.
//
//go:embed starter.yaml
var starter string

// errReview shows the editor again without a fault.
var errReview = errors.New("review the text")

func editorPreview(r *request) (*preview, error) {
	e := editor{Name: r.PathValue("name"), Text: starter, Defaults: rollout.Plan{}.WithDefaults()}
	if e.Name != "" {
		e.Document = &policystore.Document{}
		if err := r.get(documentPath(e.Name, ""), nil, e.Document); err != nil {
			return nil, err
		}
		e.Base = e.Document.Current
		totals, err := r.clientTotals(*e.Document)
		if err != nil {
			return nil, err
		}
		e.Clients = totals.All
	}
	p := &preview{Title: "New document", File: "editor", Extra: &e}
	if e.Document != nil {
		p.Title = "Edit " + e.Name
	}
	if r.Method == http.MethodPost {
		return p, e.read(r)
	}
	if e.Document != nil {
		from := e.Base
		if n := r.number("revision"); n > 0 {
			from = n
		}
		old, err := r.revision(e.Name, from)
		if err != nil {
			return nil, err
		}
		e.Text = old.Body
	}
	e.Plan.Steps = defaultSteps
	return p, nil
}

// read takes what the person filled in, and finds out what publishing it would do.
func (e *editor) read(r *request) error {
	e.take(r)
	e.NameFault = ""
	began := e.Base
	var c api.Checked
	if e.Name == "" {
		e.NameFault = "Give the document a name."
		return nil
	}
	err := r.ask(documentPath(e.Name, "/check"), api.Check{Body: e.Text}, &c)
	if text := faultOf(err); text != "" {
		e.NameFault = sentence(text)
		return nil
	}
	if err != nil {
		return err
	}
	lines := strings.Split(e.Text, "\n")
	e.Faults, e.Warnings = placed(c.Faults, lines), placed(c.Warnings, lines)
	e.Base = c.Base
	if began != c.Base {
		e.Conflict = &conflict{Began: began}
		if e.Conflict.InForce, err = r.revision(e.Name, c.Base); err != nil {
			return err
		}
		if began > 0 {
			if e.Conflict.Change, err = r.difference(e.Name, began, c.Base); err != nil {
				return err
			}
		}
	}
	if len(e.Faults) == 0 {
		e.Review = &review{Revision: c.Revision, Base: c.Base, Same: c.Base > 0 && c.Text == "", difference: newDifference(api.Difference{Fields: c.Fields, Text: c.Text})}
		e.Reviewed = e.fingerprint()
	}
	return nil
}

// take reads the form.
func (e *editor) take(r *request) {
	if e.Document == nil {
		e.Name = strings.TrimSpace(r.PostFormValue("name"))
	}
	e.Text = strings.ReplaceAll(r.PostFormValue("text"), "\r\n", "\n")
	e.Message, e.Plan, e.Steps = r.PostFormValue("message"), r.planForm(), r.PostFormValue("delivery") == "steps"
	if !r.PostForm.Has("steps") { // the form of a new document
		e.Plan.Steps = defaultSteps
	}
	e.Trial = r.PostFormValue("delivery") == "trial"
	e.Base, _ = strconv.ParseInt(r.PostFormValue("base"), 10, 64)
}

// Lines counts the lines of the text.
func (e *editor) Lines() int { return strings.Count(e.Text, "\n") + 1 }

// fingerprint names the text and what it replaces.
func (e *editor) fingerprint() string {
	sum := sha256.Sum256([]byte(decimal(e.Base) + " " + e.Text))
	return hex.EncodeToString(sum[:8])
}

// placed adds to faults the lines that they are in.
func placed(faults []api.Fault, lines []string) (list []placedFault) {
	for _, f := range faults {
		p := placedFault{Fault: f}
		if f.Line > 0 && f.Line <= len(lines) {
			p.Source = lines[f.Line-1]
			before := []rune(p.Source)
			before = before[:min(max(f.Column-1, 0), len(before))]
			p.Caret = strings.Map(func(c rune) rune {
				if c == '\t' {
					return c
				}
				return ' '
			}, string(before)) + "^"
		}
		list = append(list, p)
	}
	return list
}

// publish publishes a text that was reviewed.
func publish(r *request) (notice, next string, err error) {
	e := editor{Name: r.PathValue("name")}
	if e.Name != "" {
		e.Document = &policystore.Document{}
	}
	e.take(r)
	if r.PostFormValue("step") != "publish" {
		return "", "", errReview
	}
	if r.PostFormValue("reviewed") != e.fingerprint() {
		return "", "", formFault("The text has changed since the review. Look at the differences, then publish.")
	}
	in := api.Publish{Body: e.Text, Message: e.Message, AcceptWarnings: r.PostFormValue("accept_warnings") == "true", Trial: e.Trial}
	if e.Steps {
		if in.Rollout, err = e.Plan.plan(); err != nil {
			return "", "", formFault(err.Error())
		}
		if in.Rollout == nil {
			return "", "", formFault("Write the steps, or deliver the revision at once.")
		}
	}
	var out api.Published
	err = r.change(client.Call{Method: http.MethodPost, Path: documentPath(e.Name, "/revisions"), IfMatch: strconv.Quote(decimal(e.Base)), Body: in}, &out)
	switch {
	case changed(err):
		return "", "", formFault("Nothing was published: another revision has come into force since you began. Your text is kept.")
	case err != nil:
		return "", "", err
	case out.Trial:
		return publishedNotice(out), r.ui.href("policies/" + e.Name + "/trial"), nil
	case out.Rollout != nil:
		return publishedNotice(out), r.ui.href("policies/" + e.Name + "/rollout"), nil
	}
	return publishedNotice(out), r.ui.href("policies/" + e.Name), nil
}

// Head is the fixed part of the command line: what no field of the form sets.
func (e *editor) Head() string {
	words := []string{"policy", "publish", "policies.yaml"}
	if e.Document != nil {
		words = append(words, "--name", e.Name)
	}
	words = append(words, "--base", decimal(e.Base))
	if len(e.Warnings) > 0 {
		words = append(words, "--accept-warnings")
	}
	return commandLine(words)
}

// Command is the command line that publishes the text.
func (e *editor) Command() string {
	p := preview{Command: e.Head()}
	if e.Document == nil {
		p.Fields = []field{{Value: e.Name, Flag: "--name VALUE", Unset: "--name NAME"}}
	}
	p.Fields = append(p.Fields, field{Value: e.Message, Flag: "--message VALUE"})
	if e.Trial {
		p.Fields = append(p.Fields, field{Value: "trial", Flag: "--trial"})
	}
	if e.Steps {
		p.Fields = append(p.Fields, e.PlanFields()...)
	}
	return p.CommandLine()
}

// PlanFields are the inputs of a delivery in steps.
func (e *editor) PlanFields() []field {
	p, d := &e.Plan, &e.Defaults
	return []field{
		{Name: "steps", Label: "Steps of clients", Value: p.Steps, Help: "Shares that grow.", Flag: "--rollout VALUE", Unset: "--rollout STEPS"},
		{Name: "hold", Label: "Each step lasts at least", Value: p.Hold, Help: "Default " + seconds(d.Steps[0].Hold.Seconds()) + ".", Flag: "--hold VALUE"},
		{Name: "min_samples", Label: "Fewest calls in each group", Value: p.MinSamples, Help: "Default " + number(d.Steps[0].MinSamples) + ".", Flag: "--min-samples VALUE"},
		{Name: "failure_share", Label: "Harmful: more failed calls", Value: p.FailureShare, Help: "Percentage points of all calls. Default " + percent(d.Thresholds.FailureShare) + ".", Flag: "--max-failures VALUE"},
		{Name: "extra_attempts", Label: "Harmful: more attempts per call", Value: p.ExtraAttempts, Help: "Relative. Default " + percent(d.Thresholds.ExtraAttempts) + ".", Flag: "--max-extra-attempts VALUE"},
		{Name: "latency", Label: "Harmful: longer 95th percentile", Value: p.Latency, Help: "Relative. Default " + percent(d.Thresholds.Latency) + ".", Flag: "--max-latency VALUE"},
		{Name: "openings", Label: "Harmful: more breaker openings", Value: p.Openings, Help: "Per call. Default " + percent(d.Thresholds.Openings) + ".", Flag: "--max-openings VALUE"},
		{Name: "confidence", Label: "Confidence of a judgement", Value: p.Confidence, Help: "Default " + trim(d.Confidence*100, 3) + " %.", Flag: "--confidence VALUE"},
	}
}

// Delivery says in words who gets the revision, and when.
func (e *editor) Delivery() string {
	to := "everyone"
	if e.Clients > 0 {
		to = plural(e.Clients, "client", "clients")
	}
	if e.Trial {
		return "to " + to + " under trial: they evaluate it without effect"
	}
	if !e.Steps {
		return "to " + to + " at once"
	}
	return fmt.Sprintf("to %s in steps: %s, each for at least %s", to, e.Plan.Steps, cmp.Or(strings.TrimSpace(e.Plan.Hold), "5 min"))
}
