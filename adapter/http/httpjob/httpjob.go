package httpjob

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/internal/busy"
	"github.com/tenetdev/tenet/internal/netguard"
	"github.com/tenetdev/tenet/job"
)

// Type is the job type under which the command line registers the handler.
const Type = "http"

// Payload is the request.
type Payload struct {
	// Method defaults to POST where there is a body, else GET.
	Method  string            `json:"method"`
	URL     string            `json:"url"` // http or https
	Headers map[string]string `json:"headers"`
	// Body is sent as it is where it is a JSON string, else as JSON with its content type.
	Body json.RawMessage `json:"body"`
	// ExpectStatus is the status, or the list of statuses, that completes the job. Default any 2xx.
	ExpectStatus Statuses `json:"expect_status"`
}

// Statuses is a list of HTTP status codes; in JSON also a single number.
type Statuses []int

// UnmarshalJSON reads a number or a list of numbers.
func (s *Statuses) UnmarshalJSON(b []byte) error {
	var one int
	if json.Unmarshal(b, &one) == nil {
		*s = Statuses{one}
		if one == 0 {
			*s = nil
		}
		return nil
	}
	var list []int
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("expect_status: %s is neither a status code nor a list of them", b)
	}
	*s = list
	return nil
}

// Response is what a completed job keeps as its output.
type Response struct {
	Status    int    `json:"status"`
	Body      string `json:"body,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// Options configure the handler. The zero value is safe.
type Options struct {
	// AllowPrivateNetworks lets requests reach private, loopback and link-local addresses.
	AllowPrivateNetworks bool
	// MaxResponse bounds the kept response body, in bytes. Default 64 KiB.
	MaxResponse int
	// Client sends requests instead of the guarded one. Only for tests.
	Client *http.Client
}

const defaultMaxResponse = 64 << 10

// ForbiddenAddressError reports a request to an address that jobs must not reach.
type ForbiddenAddressError = netguard.ForbiddenAddressError

// Register adds the handler to a worker under [Type].
func Register(w *job.Worker, o Options) { job.Handle(w, Type, Handler(o)) }

// Handler sends the request of a payload.
func Handler(o Options) func(context.Context, job.Job[Payload]) error {
	o.MaxResponse = cmp.Or(max(o.MaxResponse, 0), defaultMaxResponse)
	transport := netguard.Transport(o.AllowPrivateNetworks)
	return func(ctx context.Context, j job.Job[Payload]) error {
		req, err := request(ctx, j)
		if err != nil {
			return job.Unrecoverable(err)
		}
		client := cmp.Or(o.Client, &http.Client{Transport: transport, CheckRedirect: j.Payload.redirect})
		resp, err := client.Do(req)
		if err != nil {
			return sendError(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, int64(o.MaxResponse)+1))
		if err != nil {
			return fmt.Errorf("http: reading the response of %s: %w", req.URL.Host, err)
		}
		return answer(j, resp, body, o.MaxResponse)
	}
}

// redirect does not follow a redirect whose status the payload expects. It sends none of the payload's headers, nor its URL as Referer, to
// another host or from https to http: they may hold secrets.
func (p *Payload) redirect(req *http.Request, via []*http.Request) error {
	if slices.Contains(p.ExpectStatus, req.Response.StatusCode) {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 { // as net/http does
		return errors.New("stopped after 10 redirects")
	}
	if first := via[0].URL; req.URL.Host != first.Host || first.Scheme == "https" && req.URL.Scheme != "https" {
		maps.DeleteFunc(req.Header, func(name string, _ []string) bool {
			return name != "Content-Type" && name != "Idempotency-Key" && name != "User-Agent"
		})
	}
	return nil
}

// sendError hides the URL, which may hold secrets, and gives up on addresses that will be refused again. A lack of file descriptors uses up
// no attempt.
func sendError(err error) error {
	err = fmt.Errorf("http: %w", netguard.Cause(err))
	if snoozed := busy.Snooze(err); snoozed != nil {
		return snoozed
	}
	if _, forbidden := errors.AsType[*ForbiddenAddressError](err); forbidden {
		return job.Unrecoverable(fmt.Errorf("%w; if jobs may reach it, start the worker with --allow-private-networks (httpjob.Options.AllowPrivateNetworks)", err))
	}
	return err
}

// Check reports what keeps the request from being sent, by the name of its field. It makes no connection.
func (p *Payload) Check() error {
	if u, err := url.Parse(p.URL); p.URL == "" {
		return errors.New("url: missing")
	} else if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("url: must be an absolute http or https URL")
	}
	if strings.ContainsFunc(p.Method, noToken) {
		return fmt.Errorf("method: %q is not an HTTP method", p.Method)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		if name == "" || strings.ContainsFunc(name, noToken) {
			return fmt.Errorf("headers: %q cannot be the name of a header", name)
		}
		if strings.ContainsFunc(p.Headers[name], control) {
			return fmt.Errorf("headers: %s: the value holds a control character", name)
		}
	}
	for _, status := range p.ExpectStatus {
		if status < 100 || status > 599 {
			return fmt.Errorf("expect_status: %d is not an HTTP status", status)
		}
	}
	return nil
}

func request(ctx context.Context, j job.Job[Payload]) (*http.Request, error) {
	p := j.Payload
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	body, contentType := bodyOf(p.Body)
	method := strings.ToUpper(p.Method)
	switch {
	case method != "":
	case len(body) > 0:
		method = http.MethodPost
	default:
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, p.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("http: method %q: the request cannot be made", p.Method)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("Idempotency-Key", j.ID)
	req.Header.Set("User-Agent", "tenet")
	for name, value := range p.Headers {
		if strings.EqualFold(name, "Host") {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

// noToken finds what the name of a header may not hold (RFC 9110, 5.6.2).
func noToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
}

// control finds what the value of a header may not hold.
func control(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func bodyOf(raw json.RawMessage) (body []byte, contentType string) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []byte(text), "text/plain; charset=utf-8"
	}
	return raw, "application/json"
}

// answer says what a response means for the job.
func answer(j job.Job[Payload], resp *http.Response, body []byte, limit int) error {
	if expected(j.Payload.ExpectStatus, resp.StatusCode) {
		out := Response{Status: resp.StatusCode, Truncated: len(body) > limit}
		out.Body = strings.ToValidUTF8(string(body[:min(len(body), limit)]), string(utf8.RuneError))
		raw, err := json.Marshal(out)
		if err != nil {
			return fmt.Errorf("http: output: %w", err)
		}
		j.SetOutput(raw)
		return nil
	}
	return tenethttp.NewStatusError(resp).Marked()
}

func expected(list Statuses, status int) bool {
	if len(list) == 0 {
		return status >= 200 && status < 300
	}
	return slices.Contains(list, status)
}
