package tenethttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// call is a request with all its attempts, which run concurrently if the policy hedges.
type call struct {
	executor *retry.Executor // nil is the default one
	key      policy.Key
	request  *http.Request
	send     func(*http.Request) (*http.Response, error)

	mu    sync.Mutex // guards the fields below
	sent  bool       // a body that cannot be recreated has been used
	ended bool       // the call has returned
	held  []held
}

// do runs the request under the policy of its key.
func (c *call) do(ctx context.Context, options []retry.CallOption) (*http.Response, error) {
	e := c.executor
	if e == nil {
		e = retry.DefaultExecutor()
	}
	e.Register(ClassifierName, theClassifier, theClasses)
	if id := c.request.Header.Get(idempotencyKey); id != "" {
		options = append([]retry.CallOption{retry.WithIdempotencyKey(id)}, options...)
	}
	switch { // the caller's options may set a key
	case !c.replayable():
		options = append(slices.Clip(options), retry.WithoutHedging())
	case !idempotent(c.request.Method):
		options = append(slices.Clip(options), retry.WithHedgingByKey())
	}
	c.request = c.request.Clone(ctx) // a losing hedge may read it after the caller has its own request back
	defer c.finish()
	resp, err := retry.DoValue(ctx, e, c.key, c.attempt, options...)
	if err == nil {
		c.take(resp)
		return resp, nil // which may be that of a fallback
	}
	if resp := c.last(ctx, resp, err); resp != nil {
		return resp, nil
	}
	return nil, err
}

// attempt sends the request once.
func (c *call) attempt(ctx context.Context) (*http.Response, error) {
	a, _ := retry.AttemptFromContext(ctx)
	if a.RetryIndex > 0 && a.HedgeIndex == 0 {
		c.drain()
	}
	repeatable := a.IdempotencyKey != "" || idempotent(c.request.Method)
	var seen evidence
	req, err := c.copy(seen.watch(ctx), a.IdempotencyKey)
	if err != nil {
		return nil, classify.Permanent(err)
	}
	resp, err := c.send(req)
	refused := err != nil && resp != nil // http.Client returns both for a redirect that its CheckRedirect refuses
	release := func() {}
	if err == nil {
		release = retry.Detach(ctx)
		if resp.Body != nil && resp.Body != http.NoBody { // else all is there
			err = ctx.Err()
		}
		if err != nil { // it ended first: the body can no longer be read
			hold(resp, release).response.Body.Close()
		}
	}
	if err != nil {
		err = redact(err)
		if !refused && c.replayable() && (repeatable || seen.unsent(err)) {
			return nil, &transportError{err: err, again: true}
		}
		return nil, classify.Permanent(&transportError{err: err})
	}
	return c.answered(hold(resp, release), a.IdempotencyKey != "")
}

// answered classifies a response and keeps its body readable.
func (c *call) answered(h held, withKey bool) (*http.Response, error) {
	resp := h.response
	if !c.keep(h) {
		resp.Body.Close()
		return nil, context.Canceled
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	status := &StatusError{ // of the request itself, not of a later redirect
		Method: c.request.Method, Host: hostOf(c.request), StatusCode: resp.StatusCode,
		RetryAfter: retryAfter(resp, time.Now()), IdempotencyKey: withKey, response: resp,
	}
	switch {
	case !transient(resp.StatusCode):
		return nil, classify.Business(status)
	case !status.repeatable() || !c.replayable():
		return nil, classify.Permanent(status)
	case status.RetryAfter > 0:
		return nil, classify.After(status, status.RetryAfter)
	}
	return nil, status
}

// last returns the response of the last attempt if the call failed because of it. returned is a response that the operation
// returned as a success but the policy's own classifier judged to be a failure.
func (c *call) last(ctx context.Context, returned *http.Response, err error) *http.Response {
	failure, ok := errors.AsType[*retry.Error](err)
	if !ok || ctx.Err() != nil {
		return nil
	}
	switch failure.Reason {
	case policy.ReasonNonRetryable, policy.ReasonAttemptsExhausted, policy.ReasonPushbackTooLong, policy.ReasonCircuitOpen,
		policy.ReasonBudgetDenied, policy.ReasonBudgetNotFound, policy.ReasonConcurrencyLimited, policy.ReasonRateLimited, policy.ReasonOverallTimeout, policy.ReasonDeadlineExceeded:
	default:
		return nil
	}
	if status, ok := errors.AsType[*StatusError](failure.Last); ok {
		returned = status.response
	}
	return c.take(returned)
}

// replayable reports whether the body can be sent more than once.
func (c *call) replayable() bool {
	r := c.request
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// copy makes the request of one attempt.
func (c *call) copy(ctx context.Context, id string) (*http.Request, error) {
	req := c.request.Clone(ctx)
	if id != "" {
		if req.Header == nil {
			req.Header = http.Header{}
		}
		req.Header.Set(idempotencyKey, id)
	}
	var err error
	req.Body, err = c.body()
	return req, err
}

func (c *call) body() (io.ReadCloser, error) {
	r := c.request
	if r.Body == nil || r.Body == http.NoBody {
		return r.Body, nil
	}
	if r.GetBody != nil {
		b, err := r.GetBody()
		if err != nil {
			return nil, fmt.Errorf("http: GetBody of the request: %w", err)
		}
		return b, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent {
		return nil, errors.New("http: the request's body cannot be sent again; set GetBody")
	}
	c.sent = true
	return r.Body, nil
}

// keep remembers a response until it is returned, drained or closed. It reports false if the call has ended.
func (c *call) keep(h held) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.held = append(c.held, h)
	}
	return !c.ended
}

// take removes a response from those held and returns it, or nil if it is not held.
func (c *call) take(resp *http.Response) *http.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.held, func(h held) bool { return h.response == resp })
	if i < 0 {
		return nil
	}
	c.held = slices.Delete(c.held, i, i+1)
	return resp
}

// drain discards the responses of earlier attempts.
func (c *call) drain() {
	c.mu.Lock()
	old := c.held
	c.held = nil
	c.mu.Unlock()
	for _, h := range old {
		h.drain()
	}
}

// finish closes the remaining responses and the unused request body.
func (c *call) finish() {
	c.mu.Lock()
	c.ended = true
	rest, sent := c.held, c.sent
	c.held = nil
	c.mu.Unlock()
	for _, h := range rest {
		h.release()
		h.response.Body.Close()
	}
	if c.request.Body != nil && !sent { // attempts have closed their own
		c.request.Body.Close()
	}
}
