package httpsink

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/classify"
	urls "github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/internal/netguard"
	"github.com/tenetdev/tenet/pipeline"
)

// Options change a sink. The zero value is safe.
type Options struct {
	// Method defaults to POST.
	Method string
	// Header is sent with every request. Content-Type defaults to application/json, and User-Agent to tenet.
	// Idempotency-Key, traceparent and tracestate are the transaction's.
	Header http.Header
	// Timeout bounds a request together with the step's own timeout. Default 30 s.
	Timeout time.Duration
	// MaxPayload bounds what is sent, in bytes. Default 10 MiB.
	MaxPayload int
	// AllowPrivateNetworks lets requests reach private, loopback and link-local addresses.
	AllowPrivateNetworks bool
	// Client sends the requests instead of the guarded one. Redirects are its own affair then.
	Client *http.Client
}

// Defaults.
const (
	DefaultTimeout    = 30 * time.Second
	DefaultMaxPayload = 10 << 20

	maxAnswer = 16 << 10
)

// ForbiddenAddressError reports a request to an address that sinks must not reach.
type ForbiddenAddressError = netguard.ForbiddenAddressError

// Sink sends transactions to one URL. It is safe for concurrent use.
type Sink struct {
	url    string
	host   string
	o      Options
	client *http.Client
	own    bool
}

// New makes a sink of an absolute http or https URL.
func New(address string, o Options) (*Sink, error) {
	if err := urls.Check(address); err != nil {
		return nil, fmt.Errorf("httpsink: %w", err)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("httpsink: url: must be an absolute http or https URL")
	}
	o.Method = cmp.Or(o.Method, http.MethodPost)
	o.Timeout = cmp.Or(max(o.Timeout, 0), DefaultTimeout)
	o.MaxPayload = cmp.Or(max(o.MaxPayload, 0), DefaultMaxPayload)
	o.Header = o.Header.Clone()
	if o.Header == nil {
		o.Header = http.Header{}
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "User-Agent": "tenet"} {
		if _, given := o.Header[name]; !given {
			o.Header.Set(name, value)
		}
	}
	if _, err := http.NewRequest(o.Method, address, nil); err != nil {
		return nil, fmt.Errorf("httpsink: method: %q is no HTTP method; write one such as POST", o.Method)
	}
	s := &Sink{url: u.String(), host: u.Host, o: o, client: o.Client}
	if s.client == nil {
		s.own = true
		s.client = &http.Client{
			Transport:     netguard.Transport(o.AllowPrivateNetworks),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return s, nil
}

// Dispatch implements pipeline.Sink: it sends one request, and returns nil for a 2xx.
func (s *Sink) Dispatch(ctx context.Context, t *pipeline.Transaction) error {
	if t == nil {
		return errors.New("httpsink: Dispatch: the transaction is nil")
	}
	if n := len(t.Payload()); n > s.o.MaxPayload {
		return classify.Business(fmt.Errorf("httpsink: a payload of %d bytes is above the limit of %d", n, s.o.MaxPayload))
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, s.o.Method, s.url, bytes.NewReader(t.Payload()))
	if err != nil {
		return classify.Permanent(errors.New("httpsink: the request cannot be made")) // New has seen the method and the URL
	}
	req.Header = s.o.Header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	req.Header.Set("Idempotency-Key", keyOf(t.ID()))
	if parent := t.Metadata(pipeline.MetaTraceParent); printable(parent) {
		req.Header.Set("Traceparent", parent)
		if state := t.Metadata(pipeline.MetaTraceState); printable(state) {
			req.Header.Set("Tracestate", state)
		}
	}
	resp, err := s.client.Do(req) //nolint:bodyclose // Drain closes it
	if err != nil {
		return s.unanswered(err)
	}
	netguard.Drain(resp, maxAnswer, time.Second, cancel) // what it says does not count
	return meaning(resp)
}

// unanswered hides the URL, which may hold secrets, and gives up on addresses that will be refused again.
func (s *Sink) unanswered(err error) error {
	err = fmt.Errorf("httpsink: %s: %w", s.host, netguard.Cause(err))
	if _, forbidden := errors.AsType[*ForbiddenAddressError](err); forbidden {
		return classify.Permanent(err)
	}
	return err
}

// meaning says what an answer means.
func meaning(resp *http.Response) error {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	status := tenethttp.NewStatusError(resp)
	if code >= 300 && code < 400 {
		return classify.Business(fmt.Errorf("httpsink: redirects are not followed; set the URL that it leads to: %w", status))
	}
	return status.Marked()
}

// keyOf is an ID as the value of a header: its hash where it cannot be one, or is too long for what servers keep.
func keyOf(id string) string {
	if printable(id) && len(id) <= 255 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:])
}

func printable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Close closes the connections that are not in use.
func (s *Sink) Close() error {
	if s.own {
		s.client.CloseIdleConnections()
	}
	return nil
}
