package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// problem is a problem document with the headers that go with it.
type problem struct {
	api.Problem
	retryAfter time.Duration
}

// refusal makes a problem: its status, what it is, and what the caller can do about it.
func refusal(status int, detail, remedy string) *problem {
	return &problem{Problem: api.Problem{Status: status, Detail: detail, Remedy: remedy}}
}

// retryIn says when the caller may try again.
func (p *problem) retryIn(d time.Duration) *problem {
	p.retryAfter = d
	return p
}

// able returns a store as one with an ability that not all stores have, or a refusal that says what the store lacks.
func able[A any](store any, lack, remedy string) (A, error) {
	a, ok := store.(A)
	if !ok {
		return a, refusal(http.StatusNotFound, lack, remedy)
	}
	return a, nil
}

// GetHeaders implements huma.HeadersError.
func (p *problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="tenet"`)
	}
	return h
}

func (p *problem) complete() *problem {
	p.Title = cmp.Or(p.Title, http.StatusText(p.Status))
	p.Type = cmp.Or(p.Type, api.TypeOf(p.Status))
	return p
}

func (p *problem) write(w http.ResponseWriter) {
	_ = p.complete()
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(&p.Problem) // the client may be gone
}

// awayTime is when a caller may ask again after a store did not answer.
const awayTime = 5 * time.Second

// problemOf describes an error. The errors of stores are mapped here and nowhere else.
func (s *Server) problemOf(ctx context.Context, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p.complete()
	}
	p := &problem{Problem: api.Problem{Detail: err.Error()}}
	if p.document(err) {
		return p.complete()
	}
	large, isLarge := errors.AsType[*job.PayloadTooLargeError](err)
	request, isRequest := errors.AsType[*job.RequestError](err)
	key, isKey := errors.AsType[*idempotency.KeyError](err)
	fault, isFilter := errors.AsType[*filter.Error](err)
	flow, isFlow := errors.AsType[*job.FlowError](err)
	redrive, isRedrive := errors.AsType[*job.RedriveError](err)
	_, isDuration := errors.AsType[*job.DurationError](err)
	switch {
	case errors.Is(err, job.ErrNotFound), errors.Is(err, idempotency.ErrNotFound), errors.Is(err, policystore.ErrNotFound):
		p.Status, p.Remedy = http.StatusNotFound, "list what exists, and check the name"
		if missing, ok := errors.AsType[*job.NotFoundError](err); ok { // every store and every caller without access gets the same text
			p.Detail = missing.Error()
		}
	case errors.Is(err, policystore.ErrConflict), errors.Is(err, idempotency.ErrFenced):
		p.Status, p.Remedy = http.StatusPreconditionFailed, "it was changed meanwhile: read it again, and decide anew"
	case errors.Is(err, job.ErrConflict):
		p.Status, p.Remedy = http.StatusConflict, "read it again: its state does not allow this"
	case isLarge:
		p.Status, p.Remedy = http.StatusRequestEntityTooLarge, "store the payload elsewhere, and enqueue a reference"
		p.fault("body.jobs["+strconv.Itoa(large.Index)+"].payload", err.Error())
	case isRequest:
		p.invalid("body.jobs["+strconv.Itoa(request.Index)+"]."+request.Field, request.Problem)
	case isFlow:
		p.invalid("body.jobs", strings.TrimPrefix(flow.Error(), "job: flow: "))
	case isKey:
		p.invalid("body."+key.Field, key.Problem)
	case isRedrive:
		p.invalid("body."+redrive.Field, redrive.Problem)
	case isFilter:
		p.invalid("filter", fault.Error())
	case isDuration:
		p.invalid("", err.Error())
	case errors.Is(err, errInvalid):
		p.invalid("", strings.TrimPrefix(err.Error(), errInvalid.Error()+": "))
	default:
		level := slog.LevelError
		if errors.Is(ctx.Err(), context.Canceled) { // the caller has left, or Run has cut the request off and says so
			level = slog.LevelDebug
		}
		s.options.Logger.Log(ctx, level, "a store did not answer a request", "error", err)
		p.Status, p.Detail, p.retryAfter = http.StatusServiceUnavailable, "the store did not answer", awayTime
		p.Remedy = "try again after the time in Retry-After; a change may have been made already if the store broke off while it stored it"
	}
	return p.complete()
}

// errInvalid marks errors that are the request's.
var errInvalid = errors.New("the request is not valid")

// invalid makes the problem of a request that is wrong in one place.
func invalid(path, text string) *problem {
	p := &problem{}
	p.invalid(path, text)
	return p
}

func (p *problem) invalid(path, text string) {
	p.Status, p.Detail, p.Remedy = http.StatusUnprocessableEntity, "the request is not valid", "correct the fields that errors names"
	p.fault(path, text)
}

func (p *problem) fault(path, text string) {
	p.Errors = append(p.Errors, api.Fault{Path: path, Problem: text})
}

// problems turns the errors of the router into problem documents. It leaves out the values, which may be secrets.
func problems(c huma.Context, _ string, v any) (any, error) {
	switch e := v.(type) {
	case *problem:
		return &e.Problem, nil
	case *huma.ErrorModel:
		p := &problem{Problem: api.Problem{Status: e.Status, Detail: e.Detail, Remedy: remedies[e.Status]}}
		switch e.Status {
		case http.StatusRequestTimeout:
			p.Detail = "the body did not arrive completely"
		case http.StatusRequestEntityTooLarge:
			p.Detail = fmt.Sprintf("the body is larger than %d bytes", c.Operation().MaxBodyBytes-1)
		}
		for _, d := range e.Errors {
			p.fault(d.Location, d.Message)
		}
		return &p.complete().Problem, nil
	}
	return v, nil
}

var remedies = map[int]string{
	http.StatusUnsupportedMediaType:  "send application/json",
	http.StatusUnprocessableEntity:   "correct the fields that errors names; /v1/openapi.json describes them",
	http.StatusRequestEntityTooLarge: "send less in one request",
	http.StatusRequestTimeout:        "send the request again",
	http.StatusBadRequest:            "correct the request; /v1/openapi.json describes it",
}
