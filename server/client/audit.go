package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/netguard"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

// Audit is the audit log of a server.
type Audit struct{ client *Client }

var (
	_ audit.Source = (*Audit)(nil)
	_ audit.Finder = (*Audit)(nil)
	_ audit.Tailer = (*Audit)(nil)
)

const (
	auditPage = 10_000  // lines
	maxLine   = 4 << 20 // bytes
)

// Read implements audit.Source.
func (a *Audit) Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error {
	return a.pages(ctx, url.Values{}, after, f)
}

// Find implements audit.Finder.
func (a *Audit) Find(ctx context.Context, q audit.Query, f func(cursor string, line []byte) error) error {
	if err := q.Check(); err != nil {
		return err
	}
	return a.pages(ctx, params.Of("order", "newest", "work_id", q.WorkID, "type", string(q.Type)), q.Before, f)
}

// pages reads lines from a cursor on, in the order of the query.
func (a *Audit) pages(ctx context.Context, query url.Values, cursor string, f func(cursor string, line []byte) error) error {
	parameter := "after"
	if query.Has("order") {
		parameter = "before"
	}
	query.Set("limit", strconv.Itoa(auditPage))
	for {
		if cursor != "" {
			query.Set(parameter, cursor)
		}
		n, last, err := a.page(ctx, query, f)
		if _, cutOff := errors.AsType[*cutOffError](err); n == 0 || err != nil && !cutOff {
			return err
		}
		cursor = last
	}
}

// cutOffError is the error of an answer that did not arrive completely, as when f takes longer than the server waits for its reader.
type cutOffError struct{ error }

func (e *cutOffError) Unwrap() error { return e.error }

// page reads some lines and returns their number and the last cursor.
func (a *Audit) page(ctx context.Context, query url.Values, f func(cursor string, line []byte) error) (n int, last string, err error) {
	answer, err := a.client.send(ctx, Call{Method: http.MethodGet, Path: "/v1/audit/events", Query: query})
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		var line api.AuditLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			if lines.Err() != nil {
				break // in the middle of the line
			}
			return n, last, fmt.Errorf("client: the audit log: %w", err)
		}
		text := []byte(line.Event)
		if line.Event == nil {
			text = line.Raw
		}
		if n, last = n+1, line.Cursor; text == nil {
			continue // how far a filtered answer has looked
		}
		if err := f(line.Cursor, text); err != nil {
			return n, last, err
		}
	}
	if err := lines.Err(); err != nil {
		return n, last, &cutOffError{fmt.Errorf("client: the audit log: %w", netguard.Cause(err))}
	}
	return n, last, nil
}

// AuditQuery selects events. All that is given holds; empty fields select all.
type AuditQuery struct {
	Type          audit.Type
	WorkID        string // ID of a call, job or transaction
	Actor, Action string
	Before        string // the cursor of a line: only lines before it
	Limit         int    // lines, from 1 to 10,000
}

// Newest returns lines as they are stored, the newest first, and the cursor before which to go on: that of the last line that the
// server has looked at, or "" if it has seen the beginning of the log. It fails for a server whose log cannot be read backwards.
func (a *Audit) Newest(ctx context.Context, q AuditQuery) (list []api.AuditLine, before string, err error) {
	query := params.Of("order", "newest", "limit", strconv.Itoa(q.Limit), "type", string(q.Type), "work_id", q.WorkID, "actor", q.Actor, "action", q.Action, "before", q.Before)
	n, last, err := a.page(ctx, query, func(cursor string, line []byte) error {
		list = append(list, api.AuditLine{Cursor: cursor, Event: line})
		return nil
	})
	if n < q.Limit && n == len(list) {
		last = ""
	}
	return list, last, err
}

// Tail implements audit.Tailer. It fails for a server whose log cannot be read backwards.
func (a *Audit) Tail(ctx context.Context) (cursor string, err error) {
	list, _, err := a.Newest(ctx, AuditQuery{Limit: 1})
	if len(list) > 0 {
		cursor = list[0].Cursor
	}
	return cursor, err
}

// At returns the line of a cursor. It is empty if there is none.
func (a *Audit) At(ctx context.Context, cursor string) (found api.AuditLine, err error) {
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || n < 1 {
		return found, nil //nolint:nilerr // stores number their lines
	}
	query := url.Values{"limit": {"1"}, "after": {strconv.FormatInt(n-1, 10)}}
	_, _, err = a.page(ctx, query, func(at string, line []byte) error {
		if at == cursor {
			found = api.AuditLine{Cursor: at, Event: line}
		}
		return nil
	})
	return found, err
}

// Heads returns the last entry of every chain, ordered by chain ID.
func (a *Audit) Heads(ctx context.Context) ([]audit.Head, error) {
	var out api.Heads
	err := a.client.Do(ctx, Call{Method: http.MethodGet, Path: "/v1/audit/heads"}, &out)
	return out.Heads, err
}

// Verify verifies the log on the server. progress, unless nil, is called after each part.
func (a *Audit) Verify(ctx context.Context, heads []audit.Head, progress func(*audit.VerifyReport)) (*audit.VerifyReport, error) {
	in := api.AuditVerify{Heads: heads}
	for {
		var out api.AuditVerified
		if err := a.client.Do(ctx, Call{Method: http.MethodPost, Path: "/v1/audit/verify", Body: in, Once: true}, &out); err != nil || out.Ended {
			return out.Report, err
		}
		if progress != nil {
			progress(out.Report)
		}
		in = api.AuditVerify{Cursor: out.Cursor}
	}
}

// Replay replays the log on the server, or says what a revision of a document would have changed if in names one. The last
// answer is that of the whole log. progress, unless nil, is called after each part.
func (a *Audit) Replay(ctx context.Context, in api.AuditReplay, progress func(api.AuditReplayed)) (out api.AuditReplayed, err error) {
	for {
		out = api.AuditReplayed{}
		if err := a.client.Do(ctx, Call{Method: http.MethodPost, Path: "/v1/audit/replay", Body: in, Once: true}, &out); err != nil || out.Ended {
			return out, err
		}
		if progress != nil {
			progress(out)
		}
		in = api.AuditReplay{Cursor: out.Cursor}
	}
}
