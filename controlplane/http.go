package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/netguard"
	"github.com/tenetdev/tenet/policy"
)

// maxBody is the largest document or policy, in bytes.
const maxBody = 1 << 20

// getter sends requests to a control plane. Its errors contain neither the token nor headers.
type getter struct {
	client  *http.Client
	base    string
	headers http.Header
	secrets []string
}

type response struct {
	body      []byte
	etag      string
	unchanged bool
}

// fetchError is the error of a failed request.
type fetchError struct {
	kind    error // one of the errors of package policy
	request string
	cause   error
}

func (e *fetchError) Error() string   { return fmt.Sprintf("%v: %s: %v", e.kind, e.request, e.cause) }
func (e *fetchError) Unwrap() []error { return []error{e.kind, e.cause} }

func newGetter(o RemoteOptions) (*getter, error) {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, errors.New("controlplane: URL: not an address; write https://host[:port][/path]")
	case base.User != nil || base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("controlplane: URL: credentials, query and fragment are not allowed; use Token or Headers")
	case strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("controlplane: Token: it holds a character that a header cannot carry; trim line breaks")
	}
	g := &getter{client: netguard.WithoutRedirects(o.Client), base: strings.TrimRight(o.URL, "/"), headers: o.Headers.Clone()}
	if g.headers == nil {
		g.headers = http.Header{}
	}
	if o.Token != "" {
		g.headers.Set("Authorization", "Bearer "+o.Token)
		g.secrets = append(g.secrets, o.Token)
	}
	const shortest = 8 // shorter values are not secrets, and hiding them would garble messages
	for _, values := range o.Headers {
		for _, v := range values {
			if len(v) >= shortest {
				g.secrets = append(g.secrets, v)
			}
		}
	}
	return g, nil
}

// request is a request to a control plane, with the headers that it adds to those of every request.
type request struct {
	method, path string
	headers      http.Header
	body         io.Reader
}

// send makes a request. Errors are *fetchError.
func (g *getter) send(ctx context.Context, r request) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, r.method, g.base+r.path, r.body)
	if err != nil {
		return nil, g.fail(r.method, r.path, policy.ErrPolicyFetchFailed, err)
	}
	request.Header = g.headers.Clone()
	maps.Copy(request.Header, r.headers)
	answer, err := g.client.Do(request)
	if err != nil {
		return nil, g.fail(r.method, r.path, policy.ErrProviderUnavailable, netguard.Cause(err))
	}
	return answer, nil
}

func (g *getter) fail(method, path string, kind, cause error) error {
	return &fetchError{kind: kind, request: method + " " + g.base + path, cause: g.redact(cause)}
}

// get fetches a path, with If-None-Match if etag is set. Errors are *fetchError.
func (g *getter) get(ctx context.Context, path, etag string) (response, error) {
	extra := http.Header{}
	if etag != "" {
		extra.Set("If-None-Match", etag)
	}
	return g.fetch(ctx, path, extra, maxBody)
}

// fetch gets at most most bytes from a path. Errors are *fetchError.
func (g *getter) fetch(ctx context.Context, path string, extra http.Header, most int) (response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer, err := g.send(ctx, request{method: http.MethodGet, path: path, headers: extra})
	if err != nil {
		return response{}, err
	}
	fail := func(kind, cause error) (response, error) {
		return response{}, g.fail(http.MethodGet, path, kind, cause)
	}
	defer func() { _ = answer.Body.Close() }()
	etag := extra.Get("If-None-Match")
	switch {
	case answer.StatusCode == http.StatusOK:
	case answer.StatusCode == http.StatusNotModified && etag != "":
		return response{etag: etag, unchanged: true}, nil
	default:
		netguard.Drain(answer, 16<<10, time.Second, cancel)
		return fail(kindOf(answer.StatusCode), statusOf(answer))
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, int64(most)+1))
	if err != nil {
		return fail(policy.ErrProviderUnavailable, err)
	}
	if len(body) > most {
		return fail(policy.ErrPolicyFetchFailed, fmt.Errorf("the answer is larger than %d bytes", most))
	}
	return response{body: body, etag: answer.Header.Get("ETag")}, nil
}

func kindOf(status int) error {
	switch {
	case status == http.StatusNotFound, status == http.StatusGone:
		return policy.ErrPolicyNotFound
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return policy.ErrProviderUnavailable
	}
	return policy.ErrPolicyFetchFailed
}

// ErrNotAllowed is wrapped by the error of a server that does not know the caller or refuses it (401, 403).
var ErrNotAllowed = errors.New("not allowed")

// statusError is an answer that is not what was asked for.
type statusError struct {
	status     int
	retryAfter time.Duration // 0 if the server did not say
}

// mostRetryAfter bounds what a server can ask for: one wrong header must not keep clients from later revisions.
const mostRetryAfter = 300 // seconds

func statusOf(answer *http.Response) *statusError {
	e := &statusError{status: answer.StatusCode}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.retryAfter = time.Duration(min(seconds, mostRetryAfter)) * time.Second
	}
	return e
}

// Is makes a refusal an [ErrNotAllowed].
func (e *statusError) Is(target error) bool { return target == ErrNotAllowed && e.refused() }

func (e *statusError) refused() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}

// Error names the status and a remedy. It leaves out the body, which may repeat secrets of the request.
func (e *statusError) Error() string {
	remedy := ""
	switch {
	case e.refused():
		remedy = "; check Token and Headers"
	case e.status == http.StatusNotModified:
		remedy = " to a request that named no ETag; a server or proxy in between answers wrongly"
	case e.status >= 300 && e.status < 400:
		remedy = "; redirects are not followed, give the final address as URL"
	}
	return fmt.Sprintf("status %d %s%s", e.status, http.StatusText(e.status), remedy)
}

// redact removes secrets from an error of the client's transport.
func (g *getter) redact(err error) error {
	text := err.Error()
	clean := text
	for _, secret := range g.secrets {
		clean = strings.ReplaceAll(clean, secret, "[redacted]")
	}
	if clean == text {
		return err
	}
	return errors.New(clean)
}
