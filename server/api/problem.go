package api

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/tenetdev/tenet/policyfile"
)

// Problem is a problem document (RFC 9457) with a remedy.
type Problem struct {
	Type   string  `json:"type" doc:"The kind of problem: urn:tenet:problem:NAME, urn:tenet:idempotency:NAME for one of the key of a change, or about:blank if there is no more to say than the status. docs/server.md lists them."`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitempty"`
	Remedy string  `json:"remedy,omitempty" doc:"How the caller can mend the request."`
	Errors []Fault `json:"errors,omitempty" doc:"What is wrong with the request, field by field."`
}

// Fault is something wrong with a request.
type Fault struct {
	Path    string `json:"path,omitempty" doc:"For example body.jobs[3].type or query.limit."`
	Line    int    `json:"line,omitempty" doc:"The line in the document, from 1."`
	Column  int    `json:"column,omitempty"`
	Problem string `json:"problem"`
}

// NewFault describes a fault of a document.
func NewFault(f policyfile.Fault) Fault {
	text := f.Problem
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return Fault{Path: f.Path, Line: f.Line, Column: f.Column, Problem: text}
}

// Error implements error.
func (p *Problem) Error() string {
	parts := []string{cmp.Or(p.Detail, p.Title)}
	for _, f := range p.Errors {
		parts = append(parts, strings.TrimPrefix(f.Path+": "+f.Problem, ": ")) // not all faults have a path
	}
	return strings.Join(parts, "; ")
}

// GetStatus returns the status of the answer.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of the document.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// The kinds of problems that clients tell apart.
const (
	ProblemNotFound    = "urn:tenet:problem:not-found"
	ProblemConflict    = "urn:tenet:problem:conflict"
	ProblemChanged     = "urn:tenet:problem:changed" // a precondition does not hold
	ProblemUnavailable = "urn:tenet:problem:unavailable"
	ProblemReadOnly    = "urn:tenet:problem:read-only"
	ProblemScope       = "urn:tenet:problem:scope"
	ProblemIdentity    = "urn:tenet:problem:identity"
	ProblemInvalid     = "urn:tenet:problem:invalid"
)

// TypeOf returns the kind of problem that goes with a status where there is no more exact one.
func TypeOf(status int) string {
	return cmp.Or(map[int]string{
		http.StatusNotFound: ProblemNotFound, http.StatusConflict: ProblemConflict, http.StatusPreconditionFailed: ProblemChanged,
		http.StatusServiceUnavailable: ProblemUnavailable, http.StatusUnauthorized: ProblemIdentity, http.StatusForbidden: ProblemScope,
		http.StatusUnprocessableEntity: ProblemInvalid,
	}[status], "about:blank")
}
