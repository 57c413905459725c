package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/server/api"
)

// Options of [New].
type Options struct {
	URL   string // of the server, such as https://tenet.example.com
	Token string // may be empty for a server on this machine without tokens
	// Secrets asks for secrets in payloads and for stored results, which needs the scope operate.
	Secrets bool
	// HTTP makes the requests. Default a client with a timeout of one minute.
	HTTP *http.Client
}

// Client talks to a server. It is safe for concurrent use.
type Client struct {
	options Options
	base    string
	http    *http.Client
}

// New makes a client. It sends nothing.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("client: write the URL of the server, such as https://tenet.example.com")
	}
	c := &Client{options: o, base: strings.TrimSuffix(u.String(), "/"), http: o.HTTP}
	if c.http == nil {
		c.http = &http.Client{Timeout: time.Minute}
	}
	return c, nil
}

// Jobs returns the server's jobs.
func (c *Client) Jobs() *Jobs { return &Jobs{c} }

// Records returns the server's idempotency records.
func (c *Client) Records() *Records { return &Records{c} }

// Audit returns the server's audit log.
func (c *Client) Audit() *Audit { return &Audit{c} }

// Call is a request to the API.
type Call struct {
	Method, Path string
	Query        url.Values
	Body         any    // sent as JSON; nil for none
	Once         bool   // send a new Idempotency-Key
	IfMatch      string // may be empty
}

// maxBody bounds answers, in bytes.
const maxBody = 256 << 20

// Do makes a request and reads its answer into out, unless that is nil. An answer that is not 2xx is an *api.Problem.
func (c *Client) Do(ctx context.Context, call Call, out any) error {
	answer, err := c.send(ctx, call)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if out == nil || answer.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxBody)).Decode(out); err != nil {
		return fmt.Errorf("client: %s %s: the answer is not what the API describes: %w", call.Method, call.Path, err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, call Call) (*http.Response, error) {
	var body io.Reader = http.NoBody
	if call.Body != nil {
		raw, err := json.Marshal(call.Body)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	target := c.base + call.Path
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, call.Method, target, body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if call.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.options.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	if call.Once {
		r.Header.Set(tenethttp.HeaderIdempotencyKey, uuidv7.Next())
	}
	if call.IfMatch != "" {
		r.Header.Set("If-Match", call.IfMatch)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if answer.StatusCode >= 200 && answer.StatusCode <= 299 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, problemOf(answer)
}

// problemOf reads the problem of an answer. What stands between the client and the server may answer with something else.
func problemOf(answer *http.Response) error {
	const most = 1 << 20
	p := &api.Problem{}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil || json.Unmarshal(raw, p) != nil || p.Status == 0 {
		*p = api.Problem{Type: api.TypeOf(answer.StatusCode), Title: http.StatusText(answer.StatusCode), Status: answer.StatusCode}
	}
	return p
}

// known is a problem for which a store has an error of its own.
type known struct {
	*api.Problem
	err error
}

// Unwrap returns the problem and the store's error.
func (k *known) Unwrap() []error { return []error{k.Problem, k.err} }

// as gives problems of these statuses an error of a store.
func as(err error, statuses map[int]error) error {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok || statuses[p.Status] == nil {
		return err
	}
	return &known{p, statuses[p.Status]}
}
