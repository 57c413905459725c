package ui

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/server/api"
)

// auditRun is the page of a verification or replay, part by part until it has ended.
type auditRun struct {
	What     string // Verify or Replay, the title
	Action   string // address of the next part
	Cursor   string // of the next part; empty at the end
	Lines    int
	Of       int // lines of the log, about; 0 if not known
	Verified *audit.VerifyReport
	Replayed *audit.ReplayReport
	WhatIf   *audit.WhatIfReport
	Document string
	Revision int64
	Command  string
	Heads    bool // were given
	Part     int  // lines of a part; 0 for as many as the server takes
}

// Title names the page.
func (a auditRun) Title() string { return a.What + " the audit log" }

// Percent is how much of the log is done.
func (a auditRun) Percent() int {
	if a.Of == 0 {
		return 0
	}
	return min(a.Lines*100/a.Of, 99)
}

func (r *request) newAuditRun(what, command string) auditRun {
	run := auditRun{What: what, Action: r.ui.href("do/audit/" + strings.ToLower(what)), Command: command, Part: r.part()}
	heads, err := r.ui.client.Audit().Heads(r.context())
	if err != nil {
		return run // the page does without a share
	}
	for _, h := range heads {
		run.Of += int(h.Seq)
	}
	return run
}

// part returns how many lines of the log a form asks for at a time.
func (r *request) part() int {
	n, _ := strconv.Atoi(r.PostFormValue("lines"))
	return max(n, 0)
}

// cursor returns the cursor that the form carries.
func (r *request) cursor() ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(r.PostFormValue("cursor"))
	if err != nil {
		return nil, formFault("The form was changed on its way: begin again.")
	}
	return raw, nil
}

func verifyAuditAction() *action {
	const command, withHeads = "tenet audit verify --server URL", "--head heads.json"
	return &action{
		path: "audit/verify",
		preview: func(*request) (*preview, error) {
			return &preview{
				Title: "Verify the audit log", Button: "Verify", Command: command,
				Text: []string{"Every hash and every link of the log is computed again from the stored bytes. Nothing is changed."},
				Fields: []field{{
					Name: "heads", Label: "Heads that were kept elsewhere", Type: "textarea",
					Help: "The output of tenet audit head, or a hash in each line. Without them nothing shows that the end of the log was cut off. The command below reads the output from a file.",
					Flag: withHeads,
				}},
			}, nil
		},
		show: func(r *request) (string, any, error) {
			in, err := verifyForm(r)
			if err != nil {
				return "", nil, err
			}
			var out api.AuditVerified
			if err := r.ask("/v1/audit/verify", in, &out); err != nil {
				return "", nil, err
			}
			run := r.newAuditRun("Verify", command)
			if run.Heads = len(in.Heads) > 0 || r.PostFormValue("given") != ""; run.Heads {
				run.Command += " " + withHeads
			}
			run.Verified, run.Lines, run.Cursor = out.Report, out.Report.Lines, base64.StdEncoding.EncodeToString(out.Cursor)
			return "audit-run", run, nil
		},
	}
}

var hashLine = regexp.MustCompile(`^[0-9a-f]{64}$`)

// verifyForm reads the form of a verification: that of its beginning, or of its next part.
func verifyForm(r *request) (in api.AuditVerify, err error) {
	in.Lines = r.part()
	in.Cursor, err = r.cursor()
	text := strings.TrimSpace(r.PostFormValue("heads"))
	if err != nil || len(in.Cursor) > 0 || text == "" {
		return in, err
	}
	if strings.HasPrefix(text, "{") {
		signed, err := audit.VerifyHeads([]byte(text), nil)
		if err != nil {
			return in, formFault("The heads cannot be read: paste the whole output of tenet audit head.")
		}
		in.Heads = signed.Heads
		return in, nil
	}
	for _, hash := range strings.Fields(text) {
		if !hashLine.MatchString(hash) {
			return in, formFault("A hash has 64 digits from 0 to 9 and a to f.")
		}
		in.Heads = append(in.Heads, audit.Head{Hash: hash})
	}
	return in, nil
}

const replayCommand = "tenet audit replay --server URL"

func replayAuditAction() *action {
	return &action{
		path: "audit/replay",
		preview: func(r *request) (*preview, error) {
			names, err := r.documentNames()
			if err != nil {
				return nil, err
			}
			return &preview{
				Title: "Replay the audit log", Button: "Replay", Command: replayCommand,
				Text: []string{"Every decision is computed again from the recorded policies, facts and seeds. No operation is run, and nothing is changed."},
				Fields: []field{{
					Name: "document", Label: "Under another document", Options: names, Value: r.query.Get("document"),
					Help: "What it would have changed, instead of what diverges from the record: a name for the revision in force, or a revision such as shop@7. Empty: the policies as recorded.",
					Flag: "--what-if server:URL/VALUE",
				}},
			}, nil
		},
		show: func(r *request) (string, any, error) {
			in, err := replayForm(r)
			if err != nil {
				return "", nil, err
			}
			var out api.AuditReplayed
			err = r.ask("/v1/audit/replay", in, &out)
			if answered(err, http.StatusNotFound) && in.Document != "" {
				return "", nil, formFault("There is no such document, or it has no such revision.")
			}
			if err != nil {
				return "", nil, err
			}
			run := r.newAuditRun("Replay", replayCommand)
			run.Cursor = base64.StdEncoding.EncodeToString(out.Cursor)
			if out.Report != nil {
				run.Replayed, run.Lines = out.Report, out.Report.Lines
				return "audit-run", run, nil
			}
			run.Document, _, _ = r.document()
			run.Revision = out.Revision
			run.Command += " " + shellWords([]string{"--what-if", fmt.Sprintf("server:URL/%s@%d", run.Document, run.Revision)})
			run.WhatIf = &audit.WhatIfReport{}
			err = json.Unmarshal(out.WhatIf, run.WhatIf)
			run.Lines = run.WhatIf.Lines
			return "audit-run", run, err
		},
	}
}

// replayForm reads the form of a replay: that of its beginning, or of its next part.
func replayForm(r *request) (in api.AuditReplay, err error) {
	in.Lines = r.part()
	if in.Cursor, err = r.cursor(); err != nil || len(in.Cursor) > 0 {
		return in, err
	}
	name, number, numbered := r.document()
	in.Document = name
	if !numbered {
		return in, nil
	}
	if in.Revision, err = strconv.ParseInt(number, 10, 64); err != nil || in.Revision < 1 || name == "" {
		return in, formFault("Write the name of a document, or a revision of it such as shop@7.")
	}
	return in, nil
}

// document reads the name of a document, and the number of a revision behind an @.
func (r *request) document() (name, number string, numbered bool) {
	return strings.Cut(strings.TrimSpace(r.PostFormValue("document")), "@")
}
