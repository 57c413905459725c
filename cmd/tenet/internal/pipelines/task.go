package pipelines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/adapter/http/httpsink"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/internal/netguard"
	"github.com/tenetdev/tenet/pipeline"
)

// envTransactionID is the variable with the transaction's ID for exec tasks, in addition to the variables of tenet run.
const envTransactionID = "TENET_TRANSACTION_ID"

// MaxResult is the maximum number of bytes that a task can pass on to the sink.
const MaxResult = 10 << 20

// taskSpec is a parsed --task.
type taskSpec struct {
	kind  string        // exec, http or sink
	what  string        // command or URL
	codes command.Codes // exit codes after which exec tasks are retried
}

// The kinds of tasks.
const (
	taskExec = "exec"
	taskHTTP = "http"
	taskSink = "sink"
)

func parseTask(f *consumeFlags) (t taskSpec, err error) {
	if t.codes, err = command.ParseCodes(f.retryExit); err != nil {
		return t, cli.Usagef("--retry-exit: %w", err)
	}
	kind, what, _ := strings.Cut(f.task, ":")
	switch {
	case f.task == "":
		return t, cli.Usagef("no task given; write --task exec:COMMAND, http:URL or sink")
	case f.task == taskSink && f.sink == "":
		return t, cli.Usagef("--task sink needs a --sink")
	case f.task == taskSink:
		t.kind = taskSink
	case kind == taskExec && strings.TrimSpace(what) != "":
		t.kind, t.what = taskExec, what
		if path := programPath(what); path != "" && cli.Missing(path) {
			return t, cli.Fail(cli.ExitNotFound, fmt.Errorf("--task exec: %s does not exist", path))
		}
	case kind == "https", kind == taskHTTP && strings.HasPrefix(what, "//"):
		t.kind, t.what = taskHTTP, f.task
	case kind == taskHTTP && what != "":
		t.kind, t.what = taskHTTP, what
	default:
		return t, cli.Usagef("--task %q: write exec:COMMAND, http:URL or sink", f.task)
	}
	return t, nil
}

// programPath returns the path of the program that a shell line runs. It returns "" if the shell looks the program up in PATH,
// or if the line is more than one simple command.
func programPath(line string) string {
	word := strings.Fields(line)[0]
	if !strings.Contains(word, "/") || strings.ContainsAny(line, "`$&|;<>()\n") || strings.ContainsAny(word, "'\"\\*?[]{}~#=!") {
		return ""
	}
	return word
}

// task is a consumer's task. Its result goes to the sink.
type task = pipeline.Task[*pipeline.Transaction, []byte]

// task makes the task of a consumer.
func (s *pipelineSetup) task(spec taskSpec, killGrace, timeout time.Duration) (task, error) {
	switch spec.kind {
	case taskSink:
		return decoded(task{Process: func(ctx context.Context, t *pipeline.Transaction) ([]byte, error) {
			return nil, s.sink.Dispatch(ctx, t)
		}}), nil
	case taskExec:
		e := &execTask{app: s.app, line: spec.what, codes: spec.codes, grace: killGrace, keep: s.sink != nil}
		return decoded(task{Process: e.process, Sink: s.sink}), nil
	}
	h, err := newHTTPTask(spec.what, timeout)
	if err != nil {
		return task{}, cli.Usagef("--task http: %w", err)
	}
	s.OnClose(h.sink.Close)
	return decoded(task{Process: h.process, Sink: s.sink}), nil
}

// decoded makes a task refuse the lines of a file that are not records.
func decoded[Out any](task pipeline.Task[*pipeline.Transaction, Out]) pipeline.Task[*pipeline.Transaction, Out] {
	process := task.Process
	task.Process = func(ctx context.Context, t *pipeline.Transaction) (out Out, err error) {
		if err := file.Problem(t); err != nil {
			return out, classify.Business(err)
		}
		return process(ctx, t)
	}
	return task
}

// execTask runs a command for each attempt.
type execTask struct {
	app   *cli.App
	line  string // for the shell
	codes command.Codes
	grace time.Duration
	keep  bool // its output is the result
}

func (e *execTask) process(ctx context.Context, t *pipeline.Transaction) ([]byte, error) {
	out := &bounded{most: MaxResult}
	c := &command.Command{
		Argv:  []string{"env", envTransactionID + "=" + t.ID(), "sh", "-c", e.line},
		Input: command.NewInput(bytes.NewReader(t.Payload()), 1), Stdout: e.app.Stderr, Stderr: e.app.Stderr, Grace: e.grace, Kill: e.app.Kill,
	}
	if e.keep {
		c.Stdout = out
	}
	err := c.Run(ctx)
	if exit, ok := errors.AsType[*command.ExitError](err); ok && !e.codes.Has(exit.Code) {
		return nil, classify.Business(err) // a final answer
	}
	if err != nil || !e.keep {
		return nil, err
	}
	return out.result("the command printed")
}

// bounded keeps the output up to a maximum, and records whether there was more.
type bounded struct {
	kept bytes.Buffer // not embedded, because its ReadFrom has no maximum
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.kept.Len()+len(p) > b.most {
		b.over = true
		return len(p), nil
	}
	return b.kept.Write(p)
}

// result returns the output without its final newline, or nil if it is empty.
func (b *bounded) result(what string) ([]byte, error) {
	if b.over {
		return nil, classify.Business(fmt.Errorf("%s more than %d MiB, the maximum for a sink", what, b.most>>20))
	}
	text := bytes.TrimSuffix(bytes.TrimSuffix(b.kept.Bytes(), []byte("\n")), []byte("\r"))
	if len(text) == 0 {
		return nil, nil
	}
	return text, nil
}

// httpTask posts payloads. The body of the response is the result.
type httpTask struct{ sink *httpsink.Sink }

func newHTTPTask(address string, timeout time.Duration) (*httpTask, error) {
	client := &http.Client{
		Transport:     keeping{netguard.Transport(true)}, // the operator chose the address
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	sink, err := httpsink.New(address, httpsink.Options{Client: client, Timeout: timeout})
	return &httpTask{sink}, err
}

func (h *httpTask) process(ctx context.Context, t *pipeline.Transaction) ([]byte, error) {
	body := &bounded{most: MaxResult}
	if err := h.sink.Dispatch(context.WithValue(ctx, bodyKey{}, body), t); err != nil {
		return nil, err
	}
	return body.result("the response contains")
}

type bodyKey struct{}

// keeping copies the body of a 2xx response into the buffer in the request's context.
type keeping struct{ http.RoundTripper }

func (k keeping) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := k.RoundTripper.RoundTrip(req)
	into, ok := req.Context().Value(bodyKey{}).(*bounded)
	if err != nil || !ok || resp.StatusCode/100 != 2 {
		return resp, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(into, io.LimitReader(resp.Body, int64(into.most)+1)); err != nil {
		return nil, err
	}
	resp.Body = http.NoBody
	return resp, nil
}
