package tenethttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = policy.ParseKey("users.Get")

// fixed is a policy of 3 attempts, 10 ms apart.
func fixed(edit ...func(*policy.Policy)) policy.Policy {
	p := policy.Policy{Retry: policy.Retry{
		MaxAttempts: 3, InitialBackoff: 10 * time.Millisecond, MaxBackoff: 10 * time.Millisecond, Jitter: policy.JitterNone,
	}}
	for _, e := range edit {
		e(&p)
	}
	return p
}

func options(t *testing.T, p policy.Policy) retry.ExecutorOptions {
	t.Helper()
	compiled, err := policy.Compile(p, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	return retry.ExecutorOptions{Provider: policy.NewSet(policy.SetConfig{Calls: compiled})}
}

// recording makes an executor that records its waits instead of sleeping.
func recording(t *testing.T, edit ...func(*policy.Policy)) (*retry.Executor, *tenettest.Waits) {
	t.Helper()
	return tenettest.NewExecutor(options(t, fixed(edit...)))
}

// serve starts a server for the test, and a client whose connections end with it.
func serve(t *testing.T, h http.HandlerFunc) (*httptest.Server, *http.Client) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, s.Client()
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// do sends a request, which must be answered.
func do(ctx context.Context, t *testing.T, c *tenethttp.Client, req *http.Request, options ...retry.CallOption) *http.Response {
	t.Helper()
	resp, err := c.Do(ctx, req, key, options...)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// read reads and closes a response's body.
func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the body: %v", err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatalf("closing the body: %v", err)
	}
	return string(b)
}

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// spy is a body that records whether it was closed.
type spy struct {
	io.Reader
	mu     sync.Mutex
	closed bool
}

func (s *spy) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *spy) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// pipes listens for in-memory connections, for servers inside a synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble starts a server and a client over pipes; stop ends both.
func bubble(h http.HandlerFunc) (client *http.Client, stop func()) {
	network := newPipes()
	server := &http.Server{Handler: h}
	go server.Serve(network)
	transport := &http.Transport{DialContext: network.dial}
	return &http.Client{Transport: transport}, func() {
		transport.CloseIdleConnections()
		server.Close()
	}
}

// log keeps the records of ended attempts and calls.
type log struct {
	mu     sync.Mutex
	events []*observe.Event
}

func (l *log) Observe(_ context.Context, e *observe.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// observed counts calls by key.
func observed(calls map[policy.Key]int) observe.Observer {
	var mu sync.Mutex
	return observe.Func(func(_ context.Context, e *observe.Event) {
		if e.Type == observe.CallEnded {
			mu.Lock()
			defer mu.Unlock()
			calls[e.Work.Key]++
		}
	})
}

var _ http.RoundTripper = &tenethttp.Transport{}
