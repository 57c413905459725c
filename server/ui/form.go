package ui

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/tenetdev/tenet/server/client"
)

// readForm reads a form, limited to most bytes. Its error is a *client.Problem.
func readForm(w http.ResponseWriter, r *http.Request, most int64) error {
	r.Body = http.MaxBytesReader(w, r.Body, most)
	err := r.ParseForm()
	if err == nil {
		return nil
	}
	p := &client.Problem{Title: "The form could not be read", Remedy: "Go back and try again"}
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		p.Status, p.Detail = http.StatusRequestEntityTooLarge, fmt.Sprintf("It is larger than %d KiB.", most>>10)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		p.Status, p.Detail = http.StatusRequestTimeout, "It did not arrive completely."
	default:
		p.Status, p.Detail = http.StatusBadRequest, "It is not a form of this page."
	}
	return p
}

// formFault is something that a person can mend in the form of a preview, which is then shown again.
type formFault string

// Error implements error.
func (f formFault) Error() string { return string(f) }

// faultOf returns the text of an error that a person can mend in the form; empty for others.
func faultOf(err error) string {
	if f, ok := errors.AsType[formFault](err); ok {
		return string(f)
	}
	p, ok := errors.AsType[*client.Problem](err)
	if !ok {
		return ""
	}
	switch p.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusPreconditionFailed, http.StatusUnprocessableEntity:
	default:
		return ""
	}
	parts := []string{p.Detail}
	for _, e := range p.Errors {
		parts = append(parts, e.Problem)
	}
	return strings.Join(parts, ": ")
}

// shown is when the form was shown. Times are relative to it: a form that is sent twice asks for the same.
func (r *request) shown() time.Time {
	if at, err := time.Parse(time.RFC3339Nano, r.PostFormValue("shown")); err == nil {
		return at
	}
	return time.Now()
}

// formDuration reads a time span such as 30m from a field, which may be empty.
func formDuration(r *request, name, label string) (time.Duration, error) {
	text := r.PostFormValue(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, formFault(label + ": write a time span such as 30m, 2h or 720h.")
	}
	return d, nil
}
