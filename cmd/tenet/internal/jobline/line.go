package jobline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	execjob "github.com/tenetdev/tenet/adapter/exec"
	"github.com/tenetdev/tenet/adapter/http/httpjob"
	"github.com/tenetdev/tenet/internal/near"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// Line is a job in JSON.
type Line struct {
	Type        string          `json:"type"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	Queue       string          `json:"queue,omitempty"`
	RunAt       time.Time       `json:"run_at,omitzero"`
	MaxAttempts int             `json:"max_attempts,omitempty"`
	Priority    int             `json:"priority,omitempty"`
	Timeout     Timeout         `json:"timeout,omitempty"`
	UniqueKey   string          `json:"unique_key,omitempty"`

	Meta map[string]string `json:"meta,omitempty"`
	// Flow is the ID of the flow of the job. The other fields are those of job.FlowJob.
	Flow      string        `json:"flow,omitempty"`
	Node      string        `json:"node,omitempty"`
	Needs     []string      `json:"needs,omitempty"`
	OnFailure job.OnFailure `json:"on_failure,omitempty"`
}

// Timeout is a duration in Go syntax. In JSON it can also be a number of seconds.
type Timeout string

// UnmarshalJSON reads a string or a number.
func (t *Timeout) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*t = Timeout(text)
		return nil
	}
	var seconds float64
	if json.Unmarshal(b, &seconds) != nil {
		return timeoutProblem(string(b))
	}
	d, err := policy.Seconds(seconds)
	if err != nil {
		return timeoutProblem(string(b))
	}
	*t = Timeout(d.String())
	return nil
}

func timeoutProblem(text string) error {
	return fmt.Errorf("timeout: %s is not a duration above 0 such as \"30s\", nor a number of seconds", text)
}

// Job is a checked line. Flow is empty for a job outside flows, which has only a Request.
type Job struct {
	Flow string
	job.FlowJob
}

// Read reads the fields of one line, and refuses unknown ones. It does not check their values.
func Read(text []byte) (l Line, err error) {
	if !utf8.Valid(text) { // the decoder would replace invalid bytes
		return l, errors.New("the text is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return l, withField(plain(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return l, errors.New("more than one JSON object on the line")
	}
	return l, nil
}

// Parse reads one line and checks everything that a store would refuse, except how the lines of a flow relate to each other.
// If it fails, the job that it returns still has the flow that the line names, if that can be read.
func Parse(text []byte) (Job, error) {
	l, err := Read(text)
	if err != nil {
		return Job{Flow: flowOf(text)}, err
	}
	if l.Flow == "" && l.inFlow() {
		return Job{}, errors.New("flow: missing, but node, needs or on_failure is set")
	}
	plain := l
	plain.Flow, plain.Node, plain.Needs, plain.OnFailure = "", "", nil, ""
	r, err := plain.Request()
	return Job{l.Flow, job.FlowJob{Request: r, Node: l.Node, Needs: l.Needs, OnFailure: l.OnFailure}}, err
}

// flowOf returns the flow that an invalid line names, or "" for none.
func flowOf(text []byte) string {
	var l struct {
		Flow string `json:"flow"`
	}
	_ = json.Unmarshal(text, &l) // the line is rejected already
	return l.Flow
}

// ofAnyFlow reports whether an invalid line that does not name a flow may belong to one: its fields cannot be read, or some of them are
// those of a flow's job.
func ofAnyFlow(text []byte) bool {
	var l struct {
		Flow, Node, Needs any
		OnFailure         any `json:"on_failure"`
	}
	if json.Unmarshal(text, &l) != nil {
		return true
	}
	return slices.ContainsFunc([]any{l.Flow, l.Node, l.Needs, l.OnFailure}, func(v any) bool { return v != nil && v != "" })
}

func (l Line) inFlow() bool {
	return l.Flow != "" || l.Node != "" || len(l.Needs) > 0 || l.OnFailure != ""
}

// Request converts a line of a job outside flows into a request for a client, and checks it.
func (l Line) Request() (job.Request, error) {
	r := job.Request{
		Type: l.Type, Payload: l.Payload, Queue: l.Queue, RunAt: l.RunAt, MaxAttempts: l.MaxAttempts, Priority: l.Priority, UniqueKey: l.UniqueKey, Meta: l.Meta,
	}
	if l.inFlow() {
		return job.Request{}, errors.New("flow: only jobs that are enqueued or imported can be part of a flow; leave out flow, node, needs and on_failure")
	}
	if len(l.Payload) == 0 {
		r.Payload = nil
	}
	if l.Timeout != "" {
		d, err := policy.ParseDuration(string(l.Timeout))
		if err != nil || d <= 0 {
			return job.Request{}, timeoutProblem(strconv.Quote(string(l.Timeout)))
		}
		r.Timeout = d
	}
	if err := l.checkPayload(); err != nil {
		return job.Request{}, fmt.Errorf("payload: %w", err)
	}
	if _, err := job.Inserts([]job.Request{r}); err != nil {
		return job.Request{}, requestProblem(err)
	}
	return r, nil
}

// checkPayload checks the payloads of the types that the command line's worker runs.
func (l Line) checkPayload() error {
	if job.Sealed(l.Payload) {
		return nil // of an exported job
	}
	switch l.Type {
	case httpjob.Type:
		return checkAs(l.Payload, &httpjob.Payload{}, "an http job has method, url, headers, body, expect_status")
	case execjob.Type:
		return checkAs(l.Payload, &execjob.Payload{}, "an exec job has argv, env, dir, stdin")
	}
	return nil
}

// checkAs reads a payload strictly and has it check itself. has names the fields.
func checkAs(raw json.RawMessage, payload interface{ Check() error }, has string) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(payload); err != nil {
		return fmt.Errorf("%w; %s", plain(err), has)
	}
	return payload.Check()
}

var fields = []string{
	"type", "payload", "queue", "run_at", "max_attempts", "priority", "timeout", "unique_key", "meta", "flow", "node", "needs", "on_failure",
}

// withField adds to the error about an unknown field which one was most likely meant, or which there are.
func withField(err error) error {
	var name string
	if _, other := fmt.Sscanf(err.Error(), "unknown field %q", &name); other != nil {
		return err
	}
	hint := cmp.Or(near.Question(name, fields), "; the fields are "+strings.Join(fields, ", "))
	return fmt.Errorf("%w%s", err, hint)
}

// requestProblem returns an error without the index of the request, which is always 0.
func requestProblem(err error) error {
	if r, ok := errors.AsType[*job.RequestError](err); ok {
		return fmt.Errorf("%s: %s", r.Field, r.Problem)
	}
	if p, ok := errors.AsType[*job.PayloadTooLargeError](err); ok {
		return fmt.Errorf("payload: %d bytes, above the limit of %d", p.Size, p.Limit)
	}
	return err
}

// plain rewrites errors of package json for readers who do not know Go.
func plain(err error) error {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if t.Field == "" {
			return fmt.Errorf("expected an object, not a JSON %s", t.Value)
		}
		if t.Type.Kind() == reflect.Int {
			return fmt.Errorf("%s: must be a whole number, not a JSON %s", t.Field, t.Value)
		}
		expected := map[reflect.Kind]string{reflect.String: "a string", reflect.Slice: "a list", reflect.Bool: "true or false"}[t.Type.Kind()]
		return fmt.Errorf("%s: found a JSON %s where %s is expected", t.Field, t.Value, cmp.Or(expected, "an object")) // also in a list or an object
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not valid JSON: %w", err)
	}
	if t, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Errorf("run_at: %q is not a time such as \"2026-03-02T08:00:00Z\"", strings.Trim(t.Value, `"`))
	}
	if strings.HasPrefix(err.Error(), "Time.UnmarshalJSON: ") { // it is not a JSON string; package time has no type for this
		return errors.New("run_at: must be a time such as \"2026-03-02T08:00:00Z\"")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("incomplete JSON object")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}
