package controlplane

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/rollout"
)

// aboutTrial names the revision under trial in reports of faults.
const aboutTrial = "the revision under trial"

// maxTrialKinds bounds the differences that are told apart.
const maxTrialKinds = 1000

// trial is the revision under trial: a provider of its policies, and the count of what they decide differently.
type trial struct {
	current atomic.Pointer[tried] // nil without one
	version atomic.Uint64         // grows with every change of current
}

// tried is one revision under trial. Its counts begin when it arrives.
type tried struct {
	number  int64
	set     *policy.Set // nil if the revision cannot be used
	refused string      // why not

	decisions atomic.Int64

	mu          sync.Mutex // guards the fields below
	divergences map[rollout.Divergence]int64
	others      int64
}

// Policy implements policy.Provider.
func (t *trial) Policy(ctx context.Context, key policy.Key) (*policy.Policy, error) {
	now := t.current.Load()
	if now == nil || now.set == nil {
		return nil, policy.ErrPolicyNotFound
	}
	return now.set.Policy(ctx, key)
}

// Version implements policy.Versioned.
func (t *trial) Version() uint64 { return t.version.Load() }

// put replaces the revision under trial; nil ends the trial.
func (t *trial) put(next *tried) {
	t.current.Store(next)
	t.version.Add(1)
}

// count notes a decision that both revisions made.
func (t *trial) count(e *observe.Event) {
	now := t.current.Load()
	d := e.Decision
	if now == nil || now.set == nil || d.Rule == "" || !d.Facts.Failed && d.Facts.Classified == nil { // such a success cannot differ
		return
	}
	now.decisions.Add(1)
	if d.Shadow == nil {
		return
	}
	kind := rollout.Divergence{Key: shorten(e.Work.Key.String(), 512), Reason: string(d.Verdict.Reason), Trial: string(d.Shadow.Verdict.Reason)}
	now.mu.Lock()
	defer now.mu.Unlock()
	if _, known := now.divergences[kind]; known || kind.Key != "" && len(now.divergences) < maxTrialKinds { // a server refuses an empty key
		now.divergences[kind]++
	} else {
		now.others++
	}
}

// report returns what was counted, or nil without a trial.
func (t *trial) report() *rollout.Trial {
	now := t.current.Load()
	if now == nil {
		return nil
	}
	out := rollout.Trial{Revision: now.number, Refused: shorten(now.refused, protocol.MaxReason), Decisions: now.decisions.Load()}
	now.mu.Lock()
	defer now.mu.Unlock()
	out.Others = now.others
	for kind, n := range now.divergences {
		kind.Count = n
		out.Divergences = append(out.Divergences, kind)
	}
	out = out.Listed()
	return &out
}

// try follows what the server says of the revision under trial; "" is none. A revision that cannot be fetched is asked for again after
// the next report, and one that cannot be used is reported as refused.
func (s *Server) try(ctx context.Context, header string) {
	number, _ := strconv.ParseInt(header, 10, 64)
	now := s.counter.trial.current.Load()
	switch {
	case number < 1:
		if now != nil {
			s.counter.trial.put(nil)
		}
		return
	case now != nil && now.number == number:
		return
	}
	next, err := s.fetchTrial(ctx)
	if err != nil {
		s.follower.faults.fault(aboutTrial, err.Error(), err)
		return
	}
	s.follower.faults.works(aboutTrial)
	s.counter.trial.put(next)
}

func (s *Server) fetchTrial(ctx context.Context) (*tried, error) {
	f := s.follower
	answer, err := f.getter.fetch(ctx, protocol.TrialPath(f.o.Document), nil, protocol.MaxEnvelope)
	if err != nil {
		return nil, err
	}
	e, err := protocol.ReadEnvelope(answer.body)
	if err == nil {
		f.mu.Lock()
		err = f.trust.Check(e)
		f.mu.Unlock()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", policy.ErrPolicyFetchFailed, err)
	}
	next := &tried{number: e.Revision, divergences: map[rollout.Divergence]int64{}}
	parsed, err := policyfile.Parse(s.o.name+" under trial", []byte(e.Body), policyfile.Options{Source: policy.SourceRemote, Limits: s.o.limits})
	if err != nil {
		next.refused = err.Error()
	} else {
		next.set = parsed.Set
	}
	return next, nil
}
