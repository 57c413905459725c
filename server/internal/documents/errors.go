package documents

import (
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/policystore"
)

// Errors of operations, beside those of package policystore.
var (
	// ErrRunning: the operation has to wait for the end of a rollout.
	ErrRunning = errors.New("a rollout is not over: abort it, or wait for its end")
	// ErrNotRunning: the document does not have a rollout in the state that the operation needs.
	ErrNotRunning = errors.New("no such rollout")
	// ErrFirst: a first revision cannot be rolled out, since there is nothing to compare it with.
	ErrFirst = errors.New("the first revision of a document cannot be rolled out or tried")
	// ErrNoTrial: the document has no revision under trial.
	ErrNoTrial = errors.New("no revision is under trial")
	// ErrOther: another revision is rolled out, or under trial, than the one that the operation is about.
	ErrOther = errors.New("another one has begun meanwhile")
)

// ConflictError says that another revision is in force than the one that the caller wanted to replace. It wraps
// policystore.ErrConflict.
type ConflictError struct {
	Document      string
	Base, Current int64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("document %q: revision %d is in force, not %d", e.Document, e.Current, e.Base)
}

func (e *ConflictError) Unwrap() error { return policystore.ErrConflict }

// FrozenError says that the document is frozen.
type FrozenError struct {
	Document string
	Freeze   policystore.Freeze
}

func (e *FrozenError) Error() string {
	return fmt.Sprintf("document %q is frozen by %s: %s", e.Document, e.Freeze.Actor, e.Freeze.Reason)
}

// InvalidError says that the document, or something else in the request, breaks a rule. Faults is empty if the fault is not in the
// document.
type InvalidError struct {
	Faults []policyfile.Fault
	Cause  error
}

func (e *InvalidError) Error() string { return e.Cause.Error() }
func (e *InvalidError) Unwrap() error { return e.Cause }

// WarningsError says that the document has warnings, which the caller did not accept.
type WarningsError struct{ Warnings []policyfile.Fault }

func (e *WarningsError) Error() string {
	return fmt.Sprintf("the document has warnings (%d); the first: %s; correct them, or accept them (tenet policy publish --accept-warnings)", len(e.Warnings), e.Warnings[0])
}
