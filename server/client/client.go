package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/netguard"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/server/api"
)

// Options of [New].
type Options struct {
	// URL is the address of the server: https://host[:port][/path].
	URL string
	// Token is sent with every request. Empty for a server that knows no tokens.
	Token string
	// HTTP sends the requests. Default: http.DefaultTransport, but an HTTP/2 connection that is dead is given up within 30 s. Redirects
	// are not followed: they could carry the token elsewhere.
	HTTP *http.Client
	// MaxAttempts is how often a request that may be repeated is sent, within one minute. Default 4.
	MaxAttempts int
	// Secrets asks for payloads, metadata and results as they are stored. The token then needs the scope operate.
	Secrets bool
}

// Client sends requests to a server. It is safe for concurrent use.
type Client struct {
	options Options
	base    string
	http    tenethttp.Client
}

// New makes a client. It sends nothing yet.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, errors.New("client: URL: not an address; write https://host[:port][/path]")
	case base.User != nil || base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("client: URL: credentials, query and fragment are not allowed; use Token")
	case strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("client: Token: it holds a character that a header cannot carry; trim line breaks")
	}
	fixed, err := policy.Compile(policy.Policy{Key: policy.ParseKey(key), Retry: policy.Retry{
		MaxAttempts: cmp.Or(o.MaxAttempts, 4), InitialBackoff: 100 * time.Millisecond, MaxBackoff: 2 * time.Second,
		TimeoutPerAttempt: answerTime, OverallTimeout: answerTime, ClassifierName: tenethttp.ClassifierName,
	}}, policy.CallLimits(), policy.SourceDefault)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	o.HTTP = netguard.WithoutRedirects(o.HTTP)
	c := &Client{options: o, base: strings.TrimRight(o.URL, "/")}
	c.http = tenethttp.Client{HTTP: o.HTTP, Executor: retry.NewExecutor(retry.ExecutorOptions{
		Provider:    one{fixed},
		Classifiers: map[string]classify.Classifier{tenethttp.ClassifierName: tenethttp.Classifier()}, Classes: []classify.Family{tenethttp.Classes()},
	})}
	return c, nil
}

// Jobs returns the server's jobs.
func (c *Client) Jobs() *Jobs { return &Jobs{c} }

// Records returns the server's idempotency records.
func (c *Client) Records() *Records { return &Records{c} }

// Audit returns the server's audit log.
func (c *Client) Audit() *Audit { return &Audit{c} }

// key is the key of all requests in errors and events.
const key = "tenet-server.request"

const (
	answerTime = time.Minute // until the headers of an answer, repetitions included, and between parts of it; servers give up after 30 seconds
	maxAnswer  = 64 << 20
	maxProblem = 1 << 20
)

// one is a provider of a single policy.
type one struct{ policy *policy.Policy }

// Policy implements policy.Provider.
func (o one) Policy(context.Context, policy.Key) (*policy.Policy, error) { return o.policy, nil }

// Call is a request to the API.
type Call struct {
	Method, Path string
	Query        url.Values
	Body         any    // sent as JSON; nil for none
	Once         bool   // a change that the server makes once, or a POST that changes nothing: sent with an Idempotency-Key
	Key          string // the Idempotency-Key; empty for a new one
	IfMatch      string // may be empty
	Accept       string // the media type; empty for any
	LastEventID  string // where a stream goes on; may be empty
}

// name says in errors which request it was.
func (c *Call) name() string { return "client: " + c.Method + " " + c.Path }

// Do makes a request and reads its answer into out, unless that is nil. An answer that is not 2xx is a *Problem.
func (c *Client) Do(ctx context.Context, call Call, out any) error {
	answer, err := c.send(ctx, call)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if out == nil || answer.StatusCode == http.StatusNoContent {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: read the answer: %w", call.name(), netguard.Cause(err))
	case len(raw) > maxAnswer:
		return fmt.Errorf("%s: %w", call.name(), errLarge)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%s: the answer is not what the API describes", call.name())
	}
	return nil
}

// ask makes a request and returns its answer. The error of a refusal becomes that of a store.
func ask[T any](ctx context.Context, c *Client, call Call, ofStore func(error) error) (out T, err error) {
	err = c.Do(ctx, call, &out)
	return out, ofStore(err)
}

var errLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)

// withNames keeps the names . and .. in a path from being steps through it.
func withNames(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if s == "." || s == ".." {
			segments[i] = strings.ReplaceAll(s, ".", "%2E")
		}
	}
	return strings.Join(segments, "/")
}

// body is the body of an answer. A read that takes longer than answerTime ends the request.
type body struct {
	io.ReadCloser
	end func()
}

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	late := time.AfterFunc(answerTime, b.end)
	n, err := b.ReadCloser.Read(p)
	if !late.Stop() && err != nil {
		err = fmt.Errorf("the server has sent nothing for %s", answerTime)
	}
	return n, err
}

// Close implements io.Closer.
func (b body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// send sends a request. The caller closes the body of the answer, whose status is 2xx.
func (c *Client) send(ctx context.Context, call Call) (*http.Response, error) {
	var content io.Reader
	if call.Body != nil {
		raw := &bytes.Buffer{}
		to := json.NewEncoder(raw)
		to.SetEscapeHTML(false) // payloads stay as they are
		if err := to.Encode(call.Body); err != nil {
			return nil, fmt.Errorf("%s: %w", call.name(), err)
		}
		content = raw
	}
	target := c.base + withNames(call.Path)
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, call.Method, target, content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call.name(), netguard.Cause(err))
	}
	if content != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.options.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	if call.Once {
		r.Header.Set(tenethttp.HeaderIdempotencyKey, cmp.Or(call.Key, uuidv7.Next()))
	}
	for name, value := range map[string]string{"If-Match": call.IfMatch, "Accept": call.Accept, "Last-Event-ID": call.LastEventID} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	within, end := context.WithCancel(ctx)
	answer, err := c.http.Do(within, r, policy.ParseKey(key))
	if err != nil {
		defer end()
	} else {
		answer.Body = body{answer.Body, end}
	}
	dial, _ := errors.AsType[*net.OpError](err)
	switch {
	case dial != nil && dial.Op == "dial":
		return nil, fmt.Errorf("%s: no connection to %s; check the URL, and that the server runs: %w", call.name(), c.base, netguard.Cause(err))
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, fmt.Errorf("%s: %s did not answer within %s; check the URL, and the server's log: %w", call.name(), c.base, answerTime, netguard.Cause(err))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", call.name(), netguard.Cause(err))
	case answer.StatusCode >= http.StatusMultipleChoices:
		defer answer.Body.Close()
		return nil, problemOf(call, answer)
	}
	return answer, nil
}

// problemOf reads the problem of an answer. What stands between the client and the server may answer with something else.
func problemOf(call Call, answer *http.Response) *Problem {
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	if kind != p.ContentType("") || err != nil || json.Unmarshal(raw, p) != nil || p.Status == 0 {
		p = &Problem{
			Title: http.StatusText(answer.StatusCode), Detail: fmt.Sprintf("%s: %s, not from a Tenet server", call.name(), answer.Status),
			Remedy: "check the URL, and the proxies in between",
		}
	}
	p.Status = answer.StatusCode
	return p
}

// Problem is a refusal of the server, with what the caller can do about it.
type Problem = api.Problem

// known is a problem for which a store has an error of its own.
type known struct {
	*Problem
	err error
}

// Unwrap returns the problem and the store's error.
func (k *known) Unwrap() []error { return []error{k.Problem, k.err} }

// as gives problems of these types an error of a store.
func as(err error, types map[string]error) error {
	p, ok := errors.AsType[*Problem](err)
	if !ok || types[p.Type] == nil {
		return err
	}
	return &known{p, types[p.Type]}
}
