package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// Bounds of one request that verifies or replays. Replaying reads each piece of work through an index.
const (
	auditRunTime  = 5 * time.Second
	verifiedLines = 200_000
	replayedLines = 5_000
	maxRunState   = 64 << 20 // of the state in a cursor, unpacked
	auditRuns     = 2        // at a time, which bounds the memory for their states
	auditRunWait  = 10 * time.Second
)

func (s *Server) auditRunRoutes() {
	audits := group{tag: "Audit", scope: policystore.ScopeRead, unbound: true}
	verify := audits.route(http.MethodPost, "/v1/audit/verify", "verify-audit", "Check every hash and link of the audit log, in parts")
	verify.Description = "Checks the next 200,000 lines, or as many as 5 seconds allow, and answers with a cursor until the log has ended: send it with the next request. The last answer has the result of the whole log. A cursor holds the state of the verification; it is not signed."
	verify.MaxBodyBytes = largeBody
	register(s, verify, s.verifyAudit)
	replay := audits.route(http.MethodPost, "/v1/audit/replay", "replay-audit", "Recompute every decision of the audit log, in parts")
	replay.Description = "Replays the work that begins in the next 5,000 lines, or in as many as some seconds allow, and answers with a cursor until the log has ended: send it with the next request. The last answer has the result of the whole log. With a document, says instead what one of its revisions would have changed. SQLite and PostgreSQL can."
	replay.MaxBodyBytes = largeBody
	register(s, replay, s.replayAudit)
}

type auditRun[B any] struct{ Body B }

// beginAuditRun waits until fewer than auditRuns requests verify or replay, but not so long that this one
// runs out of time.
func (s *Server) beginAuditRun(ctx context.Context) (end func(), err error) {
	late := time.NewTimer(auditRunWait)
	defer late.Stop()
	select {
	case s.limits.auditRuns <- struct{}{}:
		return func() { <-s.limits.auditRuns }, nil
	case <-late.C:
		return nil, refusal(http.StatusServiceUnavailable, "others verify or replay the log", "try again after the time in Retry-After").retryIn(awayTime)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Server) verifyAudit(ctx context.Context, in *auditRun[api.AuditVerify]) (*answer[api.AuditVerified], error) {
	end, err := s.beginAuditRun(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	v, err := verification(&in.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	ended, err := v.Continue(ctx, s.options.Audit, audit.Bounds{Lines: linesOf(in.Body.Lines, verifiedLines), Time: auditRunTime})
	if err != nil {
		return nil, err
	}
	if ended {
		return answers(api.AuditVerified{Ended: true, Report: v.Report()}, nil)
	}
	state, err := v.State()
	if err != nil {
		return nil, err
	}
	out := api.AuditVerified{Report: v.Progress()}
	out.Cursor, err = packState(state)
	return answers(out, err)
}

// verification begins or resumes a verification.
func verification(in *api.AuditVerify) (*audit.Verification, error) {
	if in.Cursor == nil {
		return audit.NewVerification(audit.VerifyOptions{Heads: in.Heads})
	}
	state, err := unpackState(in.Cursor)
	if err != nil {
		return nil, err
	}
	return audit.ResumeVerification(state)
}

// replayState is what the cursor of a replay holds.
type replayState struct {
	After    string              `json:"after"`
	Document string              `json:"document,omitempty"`
	Revision int64               `json:"revision,omitempty"`
	Replayed *audit.ReplayReport `json:"replayed,omitempty"`
	WhatIf   *audit.WhatIfReport `json:"what_if,omitempty"`
}

func (s *Server) replayAudit(ctx context.Context, in *auditRun[api.AuditReplay]) (*answer[api.AuditReplayed], error) {
	log, err := able[audit.Indexes](s.options.Audit, "this log cannot be replayed in parts", "replay it with tenet audit replay")
	if err != nil {
		return nil, err
	}
	end, err := s.beginAuditRun(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	state, err := s.replayFrom(ctx, &in.Body)
	if err != nil {
		return nil, err
	}
	works, err := audit.ReadWorks(ctx, log, state.After, audit.Bounds{Lines: linesOf(in.Body.Lines, replayedLines), Time: auditRunTime / 2})
	if err != nil {
		return nil, err
	}
	state.After = works.After
	if state.Document == "" {
		state.Replayed, err = works.Replay(ctx, state.Replayed, maxDivergences)
	} else if set, setErr := s.documents.Set(ctx, state.Document, state.Revision); setErr != nil {
		err = setErr
	} else {
		state.WhatIf, err = works.WhatIf(ctx, state.WhatIf, set)
	}
	if err != nil {
		return nil, err
	}
	out := api.AuditReplayed{Ended: works.Ended, Revision: state.Revision, Report: state.Replayed}
	if state.WhatIf != nil {
		if out.WhatIf, err = json.Marshal(state.WhatIf); err != nil {
			return nil, err
		}
	}
	if out.Ended {
		return answers(out, nil)
	}
	raw, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	out.Cursor, err = packState(raw)
	return answers(out, err)
}

const maxDivergences = 100 // that are listed; all are counted

const longestDocument = 255 // name, in bytes

// replayFrom begins or resumes a replay. The revision stays that with which it began.
func (s *Server) replayFrom(ctx context.Context, in *api.AuditReplay) (*replayState, error) {
	state := &replayState{Document: in.Document, Revision: in.Revision}
	if in.Cursor != nil {
		raw, err := unpackState(in.Cursor)
		if err == nil {
			*state = replayState{}
			err = json.Unmarshal(raw, state)
		}
		if err == nil {
			err = checkPosition("cursor", state.After)
		}
		if err != nil || len(state.Document) > longestDocument {
			return nil, fmt.Errorf("%w: cursor: not one of a replay", errInvalid)
		}
	}
	if state.Document == "" {
		if state.Revision != 0 {
			return nil, fmt.Errorf("%w: revision goes with document", errInvalid)
		}
		if state.Replayed == nil {
			state.Replayed = &audit.ReplayReport{Divergences: []audit.Divergence{}}
		}
		return state, nil
	}
	if err := callerOf(ctx).mayDocument(state.Document); err != nil {
		return nil, err
	}
	if state.WhatIf == nil {
		state.WhatIf = &audit.WhatIfReport{Categories: []audit.WhatIfCategory{}}
	}
	if state.Revision == 0 {
		d, err := s.options.Policies.Document(ctx, state.Document)
		if err != nil {
			return nil, err
		}
		state.Revision = d.Current
	}
	return state, nil
}

func linesOf(asked, most int) int {
	if asked == 0 {
		return most
	}
	return min(asked, most)
}

var errForeignCursor = errors.New("cursor: not one of this server")

func packState(state []byte) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(state)
	if closeErr := z.Close(); err == nil {
		err = closeErr
	}
	return b.Bytes(), err
}

func unpackState(cursor []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(cursor))
	if err != nil {
		return nil, errForeignCursor
	}
	state, err := io.ReadAll(io.LimitReader(z, maxRunState+1))
	if err != nil || len(state) > maxRunState {
		return nil, errForeignCursor
	}
	return state, nil
}
