package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/documents"
)

// onDocument describes a change of a document for the audit log.
func (s *Server) onDocument(ctx context.Context, name string, o audit.Operation) (audit.Operation, error) {
	d, err := s.options.Policies.Document(ctx, name)
	if err != nil && !errors.Is(err, policystore.ErrNotFound) {
		return o, err
	}
	if o.Attributes == nil {
		o.Attributes = map[string]string{}
	}
	o.Attributes["document"] = name
	o.From = stateFor(o.Action, &d)
	return o, nil
}

// stateFor describes what an action changes of a document.
func stateFor(action string, d *policystore.Document) string {
	kind, verb, _ := strings.Cut(action, ".")
	switch {
	case kind == "rollouts" && d.Rollout == nil:
		return "no rollout"
	case kind == "rollouts":
		return string(d.Rollout.State)
	case verb == "freeze", verb == "unfreeze":
		return freezeText(d.Freeze)
	case verb == "end-trial":
		return trialText(d.Trial)
	}
	return "revision " + strconv.FormatInt(d.Current, 10)
}

func freezeText(f *policystore.Freeze) string {
	if f == nil {
		return "open"
	}
	return fmt.Sprintf("frozen by %s: %s", f.Actor, f.Reason)
}

func trialText(t *policystore.Trial) string {
	if t == nil {
		return "no trial"
	}
	return "trial of revision " + strconv.FormatInt(t.Revision, 10)
}

// refused puts on record, too, that a change of a document which is on record was refused. It returns err.
func (s *Server) refused(ctx context.Context, o audit.Operation, err error) error {
	p := &problem{Problem: api.Problem{Detail: err.Error()}}
	if !p.document(err) && !errors.Is(err, policystore.ErrNotFound) && !errors.Is(err, policystore.ErrConflict) {
		return err // nobody knows whether it was made
	}
	return errors.Join(err, s.record(ctx, operation.Refused(o, p.Detail)))
}

// digest names a text that has no revision yet.
func digest(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// recordJudgement puts a judgement of a rollout on record, with its evidence, carries it out, and records if it came too late.
func (s *Server) recordJudgement(ctx context.Context, d policystore.Document, j rollout.Judgement, take func() error) error {
	evidence, err := json.Marshal(j.Measures)
	if err != nil {
		return err
	}
	o := audit.Operation{
		Actor: "server:" + documents.Judge, Action: "rollouts.judge", From: "step " + strconv.Itoa(d.Rollout.Step), To: string(j.Verdict), Detail: string(j.Reason),
		Attributes: map[string]string{"document": d.Name, "rollout": d.Rollout.ID, "candidate": strconv.FormatInt(d.Rollout.Candidate, 10), "evidence": string(evidence)},
	}
	if err := s.options.Log.OperatorAction(ctx, o); err != nil {
		return err
	}
	err = take()
	if errors.Is(err, policystore.ErrConflict) {
		return cmp.Or(s.options.Log.OperatorAction(ctx, operation.Refused(o, "the document has changed")), err)
	}
	return err
}
