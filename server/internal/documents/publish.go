package documents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/prove"
	"github.com/tenetdev/tenet/rollout"
)

// Service changes the documents of a store. It is safe for concurrent use.
type Service struct {
	store      policystore.Documents
	limits     map[policy.Surface]policy.Limits
	simulating wait.Mutex // held while a simulation runs
}

// New makes a service. limits are an operator's own limits by surface; nil means the built-in ones.
func New(store policystore.Documents, limits map[policy.Surface]policy.Limits) *Service {
	return &Service{store: store, limits: limits, simulating: wait.NewMutex()}
}

// AnyBase is the base of a change that replaces whatever is in force.
const AnyBase = -1

const maxMessage = 4096 // bytes

// Change is what publications and rollbacks have in common.
type Change struct {
	Name string
	// Base is the revision that the change replaces: 0 if the document must not exist yet, or AnyBase.
	Base            int64
	Author, Message string
	// Plan, if set, delivers the new revision in steps. A zero plan has the default steps.
	Plan *rollout.Plan
	// Trial puts the new revision under trial beside the one in force. It excludes Plan.
	Trial bool
}

// Published is the outcome of a publication or rollback.
type Published struct {
	Document policystore.Document
	Revision policystore.Revision // without its body
	Warnings []policyfile.Fault
}

// Publish makes body the next revision of a document. It returns *InvalidError with all faults, those that package prove shows
// included, *WarningsError unless
// acceptWarnings is set, *ConflictError, *FrozenError, ErrRunning or ErrFirst; then nothing has changed.
func (s *Service) Publish(ctx context.Context, c Change, body []byte, acceptWarnings bool) (Published, error) {
	parsed, err := s.parse(c.Name, body)
	if err != nil {
		return Published{}, err
	}
	faults, err := accepted(parsed, acceptWarnings)
	if err != nil {
		return Published{}, err
	}
	published, err := s.change(ctx, c, policystore.Revision{Hash: parsed.Set.Revision(), Body: body})
	published.Warnings = faults
	return published, err
}

// accepted returns the warnings of a document that may be published.
func accepted(d *policyfile.Document, acceptWarnings bool) ([]policyfile.Fault, error) {
	faults, err := proved(d)
	switch {
	case err != nil:
		return nil, err
	case slices.ContainsFunc(faults, broken):
		return nil, &InvalidError{Faults: faults, Cause: &policyfile.Error{Faults: faults}}
	case len(faults) > 0 && !acceptWarnings:
		return nil, &WarningsError{faults}
	}
	return faults, nil
}

// proved lists the warnings of a document and the violations that it does not accept, in the order of their places.
func proved(d *policyfile.Document) ([]policyfile.Fault, error) {
	findings, err := prove.Document(d, nil)
	if err != nil {
		return nil, err // not reached: only a call graph can fail
	}
	faults := slices.Concat(d.Warnings, prove.Faults(findings))
	slices.SortStableFunc(faults, func(a, b policyfile.Fault) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return faults, nil
}

// broken reports whether a fault is more than a warning.
func broken(f policyfile.Fault) bool { return !f.Warning }

func (s *Service) parse(name string, body []byte) (*policyfile.Document, error) {
	parsed, err := policyfile.Parse(name, body, policyfile.Options{Source: policy.SourceRemote, Limits: s.limits})
	if err == nil {
		return parsed, nil
	}
	return nil, invalid(err)
}

// revision reads and parses a revision, which fails where limits have become narrower since it was published.
func (s *Service) revision(ctx context.Context, name string, number int64) (*policyfile.Document, policystore.Revision, error) {
	r, err := s.store.Revision(ctx, name, number)
	if err != nil {
		return nil, r, err
	}
	d, err := s.parse(name, r.Body)
	return d, r, err
}

// Rollback publishes the content of an old revision anew, with its warnings. Its errors are otherwise those of Publish, and
// policystore.ErrNotFound.
func (s *Service) Rollback(ctx context.Context, c Change, to int64) (Published, error) {
	parsed, old, err := s.revision(ctx, c.Name, to)
	if err != nil {
		return Published{}, err
	}
	faults, err := accepted(parsed, true)
	if err != nil {
		return Published{}, err
	}
	published, err := s.change(ctx, c, policystore.Revision{Hash: old.Hash, Body: old.Body, Restores: to})
	published.Warnings = faults
	return published, err
}

// change adds a revision and makes it the current one, the candidate of a rollout, or the one under trial.
func (s *Service) change(ctx context.Context, c Change, r policystore.Revision) (Published, error) {
	if err := c.check(); err != nil {
		return Published{}, &InvalidError{Cause: err}
	}
	r.Author, r.Message = c.Author, c.Message
	var added policystore.Revision
	d, err := s.update(ctx, c.Name, true, func(d *policystore.Document, now time.Time) ([]policystore.Revision, error) {
		if err := c.allowed(d); err != nil {
			return nil, err
		}
		added = numbered(d, r, now)
		d.Trial = nil // what is tried next is another revision, or the same beside another one
		switch {
		case c.Trial:
			d.Trial = &policystore.Trial{Revision: added.Number, Actor: c.Author, Since: now}
		case c.Plan == nil:
			d.Current = added.Number
		default:
			d.Rollout = &policystore.Rollout{
				ID: uuidv7.Next(), Plan: c.Plan.WithDefaults(), Candidate: added.Number, Base: d.Current, Seed: rand.Uint64(),
				State: policystore.Running, Started: now, StepStarted: now, Actor: c.Author,
			}
		}
		return []policystore.Revision{added}, nil
	})
	added.Body = nil
	return Published{Document: d, Revision: added}, err
}

func (c *Change) check() error {
	if err := protocol.CheckName(c.Name); err != nil {
		return err
	}
	if len(c.Message) > maxMessage || !utf8.ValidString(c.Message) || strings.Contains(c.Message, "\x00") {
		return fmt.Errorf("message: write at most %d bytes of text", maxMessage)
	}
	if c.Plan != nil && c.Trial {
		return errors.New("trial: a revision is tried or rolled out, not both; try it first, then publish it with a rollout")
	}
	if c.Plan != nil {
		return c.Plan.Validate()
	}
	return nil
}

func (c *Change) allowed(d *policystore.Document) error {
	switch {
	case d.Freeze != nil:
		return &FrozenError{d.Name, *d.Freeze}
	case c.Base != AnyBase && c.Base != d.Current:
		return &ConflictError{d.Name, c.Base, d.Current}
	case d.Rollout != nil && !d.Rollout.State.Ended():
		return ErrRunning
	case (c.Plan != nil || c.Trial) && d.Current == 0:
		return ErrFirst
	}
	return nil
}

// numbered gives r the next number of the document.
func numbered(d *policystore.Document, r policystore.Revision, now time.Time) policystore.Revision {
	d.Newest++
	r.Document, r.Number, r.Parent, r.Created = d.Name, d.Newest, d.Current, now
	return r
}

const maxConflicts = 10 // in a row, before an operation gives up

// update changes a document by compare-and-set. change may run several times, each time on a fresh copy. A document that
// does not exist is created if create is set.
func (s *Service) update(ctx context.Context, name string, create bool,
	change func(d *policystore.Document, now time.Time) ([]policystore.Revision, error),
) (policystore.Document, error) {
	var err error
	for range maxConflicts {
		var d policystore.Document
		d, err = s.store.Document(ctx, name)
		if errors.Is(err, policystore.ErrNotFound) && create {
			d, err = policystore.Document{Name: name}, nil
		}
		if err != nil {
			return policystore.Document{}, err
		}
		now := policystore.Stamp(time.Now())
		var add []policystore.Revision
		if add, err = change(&d, now); err != nil {
			return policystore.Document{}, err
		}
		d.Updated = now
		if d, err = s.store.Save(ctx, d, add...); !errors.Is(err, policystore.ErrConflict) {
			return d, err
		}
	}
	return policystore.Document{}, err
}
