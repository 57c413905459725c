package policystore

import (
	"time"

	"github.com/tenetdev/tenet/rollout"
)

// Document is the state of a named document: which revision is in force, for whom.
type Document struct {
	Name string `json:"name"`
	// Version grows by one with every change of the state. It is not a revision.
	Version int64 `json:"version"`
	// Newest is the number of the newest revision, Current that of the revision in force for all clients that no running
	// rollout has chosen.
	Newest  int64 `json:"newest"`
	Current int64 `json:"current"`
	// Rollout is the running rollout, or the last one; nil if there was none.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Trial is the revision under trial; nil for none.
	Trial *Trial `json:"trial,omitempty"`
	// Freeze, if set, refuses publications, rollbacks and rollouts.
	Freeze  *Freeze   `json:"freeze,omitempty"`
	Updated time.Time `json:"updated"`
}

// Trial is a revision that clients evaluate beside the one in force, without effect, until another revision comes into force or the
// trial is ended.
type Trial struct {
	Revision int64     `json:"revision"`
	Actor    string    `json:"actor"`
	Since    time.Time `json:"since"`
}

// Freeze says why a document must not change.
type Freeze struct {
	Reason string    `json:"reason"`
	Actor  string    `json:"actor"`
	Since  time.Time `json:"since"`
}

// Revision is one immutable content of a document.
type Revision struct {
	Document string `json:"document"`
	// Number is 1 for the first revision and grows by one. A revision that brings back an old content has a number of its own.
	Number int64 `json:"revision"`
	// Hash is that of the compiled document (policy.Set.Revision), so that the same policies have the same hash.
	Hash string `json:"hash"`
	// Body is the document as it was published. It is empty in lists.
	Body    []byte    `json:"body,omitempty"`
	Author  string    `json:"author"`
	Message string    `json:"message,omitempty"`
	Created time.Time `json:"created"`
	// Parent is the revision that was in force when this one was published; 0 for the first. Restores is the revision whose
	// content this one brings back, 0 otherwise.
	Parent   int64 `json:"parent"`
	Restores int64 `json:"restores,omitempty"`
}

// RolloutState is the state of a rollout:
//
//	running ⇄ paused
//	running, paused → aborted (an operator)
//	running → promoted | reverted (the judgement)
//
// A rollout that ended as aborted or reverted has published the base's content anew.
type RolloutState string

// The states of rollouts.
const (
	Running  RolloutState = "running"
	Paused   RolloutState = "paused"
	Promoted RolloutState = "promoted"
	Reverted RolloutState = "reverted"
	Aborted  RolloutState = "aborted"
)

// Ended reports whether the state is final.
func (s RolloutState) Ended() bool { return s != Running && s != Paused }

// Rollout is the delivery of a revision to a growing share of clients.
type Rollout struct {
	ID   string       `json:"id"`
	Plan rollout.Plan `json:"plan"`
	// Candidate is the new revision, Base the one that it is compared with.
	Candidate int64  `json:"candidate"`
	Base      int64  `json:"base"`
	Seed      uint64 `json:"seed"`
	// Step is the index of the current step; StepStarted is when it began, less the time for which the rollout was paused.
	Step        int          `json:"step"`
	State       RolloutState `json:"state"`
	Started     time.Time    `json:"started"`
	StepStarted time.Time    `json:"step_started"`
	Ended       time.Time    `json:"ended,omitzero"`
	PausedAt    time.Time    `json:"paused_at,omitzero"`
	Actor       string       `json:"actor"`
	// Judgement is the one that changed the state or step last.
	Judgement *rollout.Judgement `json:"judgement,omitempty"`
}

// Evidence is what clients reported during a step of a rollout, in sum.
type Evidence struct {
	Rollout  string           `json:"rollout"`
	Step     int              `json:"step"`
	Revision int64            `json:"revision"`
	Counters rollout.Counters `json:"counters"`
	// Source names the sender, and Batch numbers its batches from 1. Without a Source, counters are always added.
	Source string `json:"source,omitempty"`
	Batch  int64  `json:"batch,omitempty"`
}

// Stamp returns a time as stores keep it: in UTC, truncated to microseconds.
func Stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
