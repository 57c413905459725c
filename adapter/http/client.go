package tenethttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Client sends requests under the policy of a key. The zero value works. Safe for concurrent use once its fields are
// set.
type Client struct {
	// HTTP sends each attempt, redirects included. Default http.DefaultClient. Its Timeout bounds an attempt including the
	// reading of its body. Its transport should not be a [Transport], which would multiply the attempts.
	HTTP *http.Client
	// Executor runs the attempts. Default retry.DefaultExecutor().
	Executor *retry.Executor
}

// Do sends req under the policy of key. ctx takes the place of the request's own context, for the call and for reading
// the body. The package documentation says what is retried and what is returned. As with http.Client, the caller must close
// the body of a returned response, and Do always closes the request's body. Do not pass [retry.WithIdempotency]: a
// guard cannot store a response. Put the guard around Do and the reading of the body, and let it store what you read.
func (c *Client) Do(ctx context.Context, req *http.Request, key policy.Key, options ...retry.CallOption) (*http.Response, error) {
	switch {
	case req == nil:
		return nil, errors.New("tenethttp: Do: the request is nil")
	case ctx == nil:
		return nil, errors.New("tenethttp: Do: the context is nil")
	}
	client := cmp.Or(c.HTTP, http.DefaultClient)
	run := &call{executor: c.Executor, key: key, request: req, send: client.Do}
	return run.do(ctx, options)
}

// Transport is an http.RoundTripper that runs every request of an http.Client under a policy; each redirect is a request
// of its own. The client's Timeout bounds all attempts together, including the reading of the body. The client's error reports a
// timeout (url.Error.Timeout, os.IsTimeout) if the call or its last attempt timed out. The zero value works.
// Safe for concurrent use once its fields are set; do not copy it after its first use.
type Transport struct {
	// Base sends each attempt. Default http.DefaultTransport.
	Base http.RoundTripper
	// Executor runs the attempts. Default retry.DefaultExecutor().
	Executor *retry.Executor
	// Key names the operation of a request. Default a function from [NewKeyFunc] with [MaxKeys].
	Key func(*http.Request) policy.Key

	once       sync.Once
	defaultKey func(*http.Request) policy.Key
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req == nil {
		return nil, errors.New("tenethttp: RoundTrip: the request is nil")
	}
	base, key := cmp.Or(t.Base, http.DefaultTransport), t.Key
	if key == nil {
		t.once.Do(func() { t.defaultKey = NewKeyFunc(MaxKeys) })
		key = t.defaultKey
	}
	run := &call{executor: t.Executor, key: key(req), request: req, send: base.RoundTrip}
	resp, err := run.do(req.Context(), nil)
	if resp != nil {
		resp.Request = req
	}
	if own, ok := errors.AsType[timeout](err); errors.Is(err, context.DeadlineExceeded) || ok && own.Timeout() {
		err = &timeoutError{err}
	}
	return resp, err
}

// timeoutError makes a failure a timeout to http.Client, whose url.Error.Timeout looks no deeper.
type timeoutError struct{ error }

func (e *timeoutError) Timeout() bool { return true }
func (e *timeoutError) Unwrap() error { return e.error }

// CloseIdleConnections closes the idle connections of the base. http.Client.CloseIdleConnections calls it.
func (t *Transport) CloseIdleConnections() {
	base := cmp.Or(t.Base, http.DefaultTransport)
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
