package tenethttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

func TestC6StatusesByMethod(t *testing.T) {
	tests := map[string]struct {
		method, key string
		status      int
		want        int // attempts
	}{
		"GET 200":                 {"GET", "", 200, 1},
		"GET 304":                 {"GET", "", 304, 1},
		"GET 404 is business":     {"GET", "", 404, 1},
		"GET 408":                 {"GET", "", 408, 3},
		"GET 409 is business":     {"GET", "", 409, 1},
		"GET 429":                 {"GET", "", 429, 3},
		"GET 500":                 {"GET", "", 500, 3},
		"GET 501":                 {"GET", "", 501, 3},
		"GET 503":                 {"GET", "", 503, 3},
		"HEAD 503":                {"HEAD", "", 503, 3},
		"OPTIONS 503":             {"OPTIONS", "", 503, 3},
		"TRACE 503":               {"TRACE", "", 503, 3},
		"PUT 503":                 {"PUT", "", 503, 3},
		"DELETE 503":              {"DELETE", "", 503, 3},
		"POST 503 was processed":  {"POST", "", 503, 1},
		"POST 429 has no key":     {"POST", "", 429, 1},
		"POST 404 is business":    {"POST", "", 404, 1},
		"PATCH 503 was processed": {"PATCH", "", 503, 1},
		"POST 503 with a key":     {"POST", "order-1", 503, 3},
		"PATCH 429 with a key":    {"PATCH", "order-1", 429, 3},
		"POST 400 with a key":     {"POST", "order-1", 400, 1},
	}
	for name, tt := range tests {
		for _, classifier := range []string{"", tenethttp.ClassifierName} {
			t.Run(name+" "+classifier, func(t *testing.T) {
				var attempts atomic.Int32
				server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
					n := attempts.Add(1)
					w.WriteHeader(tt.status)
					if r.Method != "HEAD" && tt.status != 304 {
						fmt.Fprintf(w, "answer %d", n)
					}
				})
				o := options(t, fixed(func(p *policy.Policy) { p.Retry.ClassifierName = classifier }))
				o.Classifiers = registered()
				e, _ := tenettest.NewExecutor(o)
				c := tenethttp.Client{HTTP: client, Executor: e}
				req := request(t, tt.method, server.URL, nil)
				if tt.key != "" {
					req.Header.Set("Idempotency-Key", tt.key)
				}
				resp, err := c.Do(t.Context(), req, key)
				if err != nil {
					t.Fatalf("error %v, want the last response", err)
				}
				body := read(t, resp)
				if resp.StatusCode != tt.status || int(attempts.Load()) != tt.want {
					t.Errorf("status %d after %d attempts, want %d after %d", resp.StatusCode, attempts.Load(), tt.status, tt.want)
				}
				if want := fmt.Sprintf("answer %d", tt.want); tt.method != "HEAD" && tt.status != 304 && body != want {
					t.Errorf("body %q, want the last one, %q", body, want)
				}
			})
		}
	}
}

func TestC6TransportErrorsByMethod(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	tests := map[string]struct {
		method string
		err    error
		want   int
	}{
		"GET, connection lost":      {"GET", reset, 3},
		"DELETE, connection lost":   {"DELETE", reset, 3},
		"GET, timeout":              {"GET", context.DeadlineExceeded, 3},
		"POST, connection lost":     {"POST", reset, 1},
		"POST, timeout":             {"POST", context.DeadlineExceeded, 1},
		"POST, unknown error":       {"POST", errors.New("odd"), 1},
		"POST, never dialled":       {"POST", &net.OpError{Op: "dial", Err: errors.New("no route")}, 3},
		"POST, proxy never dialled": {"POST", &net.OpError{Op: "proxyconnect", Err: errors.New("no route")}, 3},
		"POST, refused":             {"POST", syscall.ECONNREFUSED, 3},
		"PATCH, unknown host":       {"PATCH", fmt.Errorf("lookup: %w", &net.DNSError{Name: "x"}), 3},
		"POST, dial timed out":      {"POST", &net.OpError{Op: "dial", Err: context.DeadlineExceeded}, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			e, waits := recording(t)
			tr := &tenethttp.Transport{Executor: e, Base: roundTrip(func(*http.Request) (*http.Response, error) {
				attempts++
				return nil, tt.err
			})}
			_, err := tr.RoundTrip(request(t, tt.method, "http://x/", nil))
			if attempts != tt.want || len(waits.All()) != tt.want-1 {
				t.Errorf("%d attempts, want %d", attempts, tt.want)
			}
			if failure, ok := errors.AsType[*retry.Error](err); !ok || failure.Attempts != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("error %v, want a *retry.Error around %v", err, tt.err)
			}
		})
	}
}

// TestC6ARefusedRedirectIsNotRepeated: the answer would be the same, and each attempt would follow up to ten redirects.
func TestC6ARefusedRedirectIsNotRepeated(t *testing.T) {
	requests := 0
	s, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.Redirect(w, r, "/", http.StatusFound)
	})
	e, _ := recording(t)
	_, err := (&tenethttp.Client{HTTP: client, Executor: e}).Do(t.Context(), request(t, "GET", s.URL, nil), key)
	if failure, ok := errors.AsType[*retry.Error](err); !ok || failure.Attempts != 1 || requests != 10 {
		t.Errorf("%d requests, want the 10 of one attempt: %v", requests, err)
	}
}

// TestTransportTimeoutsAreThoseOfURLErrors: programs ask url.Error.Timeout, net.Error or os.IsTimeout, as without the transport.
func TestTransportTimeoutsAreThoseOfURLErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error // of the base; nil waits for the end of the context
		timeout bool
	}{
		"the caller's deadline": {nil, true},
		"a dial timed out":      {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, true},
		"connection refused":    {syscall.ECONNREFUSED, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				e, _ := recording(t)
				client := http.Client{Transport: &tenethttp.Transport{Executor: e, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
					if tt.err != nil {
						return nil, tt.err
					}
					<-r.Context().Done()
					return nil, r.Context().Err()
				})}}
				_, err := client.Do(request(t, "GET", "http://x/", nil).WithContext(ctx))
				if os.IsTimeout(err) != tt.timeout {
					t.Errorf("os.IsTimeout(%v) is %v", err, !tt.timeout)
				}
				if _, ok := errors.AsType[*retry.Error](err); !ok {
					t.Errorf("%v is not a *retry.Error", err)
				}
			})
		})
	}
}

// TestC6ProofByTrace checks that the request's trace proves that the server was never reached where the error does not.
func TestC6ProofByTrace(t *testing.T) {
	dials := 0
	failed := errors.New("handshake interrupted")
	base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, failed
	}}
	e, _ := recording(t)
	c := tenethttp.Client{HTTP: &http.Client{Transport: base}, Executor: e}
	_, err := c.Do(t.Context(), request(t, "POST", "http://x/", strings.NewReader("order")), key)
	if dials != 3 || !errors.Is(err, failed) {
		t.Errorf("%d dials with error %v, want 3 with %v", dials, err, failed)
	}
}

func TestC6PostOnALostConnectionIsNotRepeated(t *testing.T) {
	var attempts atomic.Int32
	server, client := serve(t, func(http.ResponseWriter, *http.Request) {
		attempts.Add(1)
		panic(http.ErrAbortHandler)
	})
	e, _ := recording(t)
	c := tenethttp.Client{HTTP: client, Executor: e}
	_, err := c.Do(t.Context(), request(t, "POST", server.URL, strings.NewReader("order")), key)
	if failure, ok := errors.AsType[*retry.Error](err); !ok || failure.Reason != policy.ReasonNonRetryable || attempts.Load() != 1 {
		t.Errorf("%v after %d attempts, want non_retryable after 1", err, attempts.Load())
	}
}

// TestC6RedirectedPostIsNotRepeated: a redirect is a response, so an error after it does not prove that the request was not
// processed.
func TestC6RedirectedPostIsNotRepeated(t *testing.T) {
	var attempts atomic.Int32
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		attempts.Add(1)
		http.Redirect(w, r, "http://127.0.0.1:1/moved?token=secret", http.StatusTemporaryRedirect)
	})
	e, _ := recording(t)
	c := tenethttp.Client{HTTP: client, Executor: e}
	_, err := c.Do(t.Context(), request(t, "POST", server.URL, strings.NewReader("order")), key)
	if err == nil || attempts.Load() != 1 {
		t.Errorf("%v after %d attempts, want an error after 1", err, attempts.Load())
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows the query: %v", err)
	}
}

// refusal imitates net/http's error for a refused HTTP/2 stream.
type refusal struct{}

func (refusal) Error() string { return "refused" }

func (refusal) As(target any) bool {
	v := reflect.ValueOf(target).Elem()
	if v.Kind() != reflect.Struct || !v.FieldByName("Code").IsValid() {
		return false
	}
	v.FieldByName("Code").SetUint(7)
	return true
}

func TestC6StreamRefusedAfterARedirectProvesNothing(t *testing.T) {
	for name, want := range map[string]int{"/": 3, "/redirected": 1} {
		t.Run(name, func(t *testing.T) {
			first := 0
			base := roundTrip(func(r *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(r.Context())
				trace.GetConn("x:80")
				trace.GotConn(httptrace.GotConnInfo{})
				if r.URL.Path == name {
					first++
				}
				if r.URL.Path == "/redirected" {
					trace.GotFirstResponseByte()
					return answer(307, "", "Location", "/end"), nil
				}
				return nil, refusal{}
			})
			e, _ := recording(t)
			c := tenethttp.Client{HTTP: &http.Client{Transport: base}, Executor: e}
			_, err := c.Do(t.Context(), request(t, "POST", "http://x"+name, strings.NewReader("order")), key)
			if !errors.Is(err, refusal{}) || first != want {
				t.Errorf("%v after %d attempts, want %d", err, first, want)
			}
		})
	}
}

func TestIdempotencyKeyGoesWithEveryAttempt(t *testing.T) {
	tests := map[string]struct {
		header  string
		options []retry.CallOption
		want    string
	}{
		"from the header":                 {"h-1", nil, "h-1"},
		"from the option":                 {"", []retry.CallOption{retry.WithIdempotencyKey("o-1")}, "o-1"},
		"the option wins over the header": {"h-1", []retry.CallOption{retry.WithIdempotencyKey("o-1")}, "o-1"},
		"other options leave the header":  {"h-1", []retry.CallOption{retry.WithTenant("t")}, "h-1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = append(got, r.Header.Get("Idempotency-Key"))
				w.WriteHeader(503)
			})
			o := options(t, fixed())
			seen := &log{}
			o.Observer = seen
			e, _ := tenettest.NewExecutor(o)
			c := tenethttp.Client{HTTP: client, Executor: e}
			req := request(t, "POST", server.URL, strings.NewReader("x"))
			if tt.header != "" {
				req.Header.Set("Idempotency-Key", tt.header)
			}
			resp := do(t.Context(), t, &c, req, tt.options...)
			resp.Body.Close()
			if diff := cmp.Diff([]string{tt.want, tt.want, tt.want}, got); diff != "" {
				t.Error(diff)
			}
			if req.Header.Get("Idempotency-Key") != tt.header {
				t.Error("the caller's request was changed")
			}
			if id := seen.events[len(seen.events)-1].Work.IdempotencyKey; id != tt.want {
				t.Errorf("records carry the key %q, want %q", id, tt.want)
			}
		})
	}
}

func TestD5RetryAfterIsTheShortestWait(t *testing.T) {
	date := "Fri, 02 Jan 2026 10:00:00 GMT"
	tests := map[string]struct {
		status int
		header []string
		want   time.Duration
	}{
		"seconds on 429":                {429, []string{"Retry-After", "2"}, 2 * time.Second},
		"seconds on 503":                {503, []string{"Retry-After", " 7 "}, 7 * time.Second},
		"a date, by the server's clock": {503, []string{"Retry-After", "Fri, 02 Jan 2026 10:00:30 GMT", "Date", date}, 30 * time.Second},
		"a date in the past":            {503, []string{"Retry-After", "Fri, 02 Jan 2026 09:00:00 GMT", "Date", date}, 10 * time.Millisecond},
		"shorter than the backoff":      {429, []string{"Retry-After", "0"}, 10 * time.Millisecond},
		"ignored on 500":                {500, []string{"Retry-After", "2"}, 10 * time.Millisecond},
		"nonsense":                      {503, []string{"Retry-After", "soon"}, 10 * time.Millisecond},
		"negative":                      {503, []string{"Retry-After", "-5"}, 10 * time.Millisecond},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, waits := recording(t)
			answers := []*http.Response{answer(tt.status, "", tt.header...), answer(200, "fine")}
			tr := &tenethttp.Transport{Executor: e, Base: roundTrip(func(*http.Request) (*http.Response, error) {
				next := answers[0]
				answers = answers[1:]
				return next, nil
			})}
			resp, err := tr.RoundTrip(request(t, "GET", "http://x/", nil))
			if err != nil || read(t, resp) != "fine" {
				t.Fatal(resp, err)
			}
			if diff := cmp.Diff([]time.Duration{tt.want}, waits.All()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLastResponseIsReturnedWhateverTheReason checks that the caller gets the last response, whatever stopped the call.
func TestLastResponseIsReturnedWhateverTheReason(t *testing.T) {
	tests := map[string]struct {
		header []string
		edit   func(*policy.Policy)
		ctx    time.Duration
		reason policy.Reason
	}{
		"pushback":  {[]string{"Retry-After", "3600"}, nil, 0, policy.ReasonPushbackTooLong},
		"endless":   {[]string{"Retry-After", "99999999999999999999"}, nil, 0, policy.ReasonPushbackTooLong},
		"budget":    {nil, func(p *policy.Policy) { p.Retry.Budget.Name = "none" }, 0, policy.ReasonBudgetDenied},
		"deadline":  {[]string{"Retry-After", "30"}, nil, 10 * time.Second, policy.ReasonDeadlineExceeded},
		"overall":   {[]string{"Retry-After", "30"}, func(p *policy.Policy) { p.Retry.OverallTimeout = 10 * time.Second }, 0, policy.ReasonOverallTimeout},
		"exhausted": {nil, func(p *policy.Policy) { p.Retry.MaxAttempts = 1 }, 0, policy.ReasonAttemptsExhausted},
		"abort_on":  {nil, func(p *policy.Policy) { p.Retry.AbortOn = []policy.Class{"http_503"} }, 0, policy.ReasonNonRetryable},
		"retry_on":  {nil, func(p *policy.Policy) { p.Retry.RetryOn = []policy.Class{"http_429"} }, 0, policy.ReasonNonRetryable},
		"breaker": {nil, func(p *policy.Policy) {
			p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1}
		}, 0, policy.ReasonCircuitOpen},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				for i := 0; i+1 < len(tt.header); i += 2 {
					w.Header().Set(tt.header[i], tt.header[i+1])
				}
				w.WriteHeader(503)
				io.WriteString(w, strings.Repeat("x", 1<<20))
			})
			p := fixed()
			if tt.edit != nil {
				tt.edit(&p)
			}
			o := options(t, p)
			o.Classes = append(o.Classes, tenethttp.Classes())
			o.Budgets = budget.NewRegistry()
			if err := o.Budgets.Register("none", budget.NewRetryRatio(0, 0)); err != nil {
				t.Fatal(err)
			}
			e, waits := tenettest.NewExecutor(o)
			c := tenethttp.Client{HTTP: client, Executor: e}
			ctx, capture := observe.RecordTimeline(t.Context())
			if tt.ctx > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.ctx)
				defer cancel()
			}
			resp := do(ctx, t, &c, request(t, "GET", server.URL, nil))
			if got := read(t, resp); resp.StatusCode != 503 || len(got) != 1<<20 {
				t.Errorf("status %d with %d bytes, want 503 with all of 1 MiB", resp.StatusCode, len(got))
			}
			if timeline, _ := capture.Timeline(); timeline.Reason != tt.reason || len(waits.All()) > 0 {
				t.Errorf("stopped with %s after waiting %v, want %s at once", timeline.Reason, waits.All(), tt.reason)
			}
		})
	}
}

func TestFailuresWithoutAUsableResponseAreErrors(t *testing.T) {
	t.Run("the caller gave up", func(t *testing.T) {
		server, client := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
		ctx, cancel := context.WithCancel(t.Context())
		o := options(t, fixed())
		o.Wait = func(context.Context, time.Duration) error { cancel(); return context.Canceled }
		c := tenethttp.Client{HTTP: client, Executor: retry.NewExecutor(o)}
		resp, err := c.Do(ctx, request(t, "GET", server.URL, nil), key)
		if resp != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", resp, err)
		}
	})
	t.Run("the caller's deadline passed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			tr := &tenethttp.Transport{Executor: retry.NewExecutor(options(t, fixed())), Base: after(2*time.Second, answer(503, ""), nil)}
			resp, err := tr.RoundTrip(request(t, "GET", "http://x/", nil).WithContext(ctx))
			if resp != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	})
	t.Run("the journal refused", func(t *testing.T) {
		server, client := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
		o := options(t, fixed())
		o.Journal = refusing{}
		c := tenethttp.Client{HTTP: client, Executor: retry.NewExecutor(o)}
		resp, err := c.Do(t.Context(), request(t, "GET", server.URL, nil), key)
		if failure, ok := errors.AsType[*retry.Error](err); resp != nil || !ok || failure.Reason != policy.ReasonAuditUnavailable {
			t.Errorf("got %v, %v", resp, err)
		}
	})
	t.Run("an error after a response", func(t *testing.T) {
		e, _ := recording(t)
		lost := errors.New("lost")
		first := &spy{Reader: strings.NewReader("old")}
		calls := 0
		tr := &tenethttp.Transport{Executor: e, Base: roundTrip(func(*http.Request) (*http.Response, error) {
			if calls++; calls == 1 {
				return &http.Response{StatusCode: 503, Body: first}, nil
			}
			return nil, lost
		})}
		resp, err := tr.RoundTrip(request(t, "GET", "http://x/", nil))
		if resp != nil || !errors.Is(err, lost) || !first.isClosed() {
			t.Errorf("got %v, %v; old body closed: %t", resp, err, first.isClosed())
		}
	})
}

func TestB4AFallbackOfAResponseIsReturned(t *testing.T) {
	e, _ := recording(t)
	c := tenethttp.Client{Executor: e, HTTP: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return answer(503, ""), nil })}}
	resp, err := c.Do(t.Context(), request(t, "GET", "http://x/", nil), key, retry.WithFallbackValue(answer(200, "cached")))
	if err != nil || resp == nil {
		t.Fatalf("got %v, %v", resp, err)
	}
	if got := read(t, resp); got != "cached" {
		t.Errorf("body %q, want that of the fallback", got)
	}
}

type refusing struct{}

func (refusing) Append(context.Context, *observe.Event) error { return errors.New("disk full") }

func TestR11BusinessResponsesKeepTheBreakerClosed(t *testing.T) {
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) })
	e, _ := recording(t, func(p *policy.Policy) {
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 2}
	})
	c := tenethttp.Client{HTTP: client, Executor: e}
	for i := range 5 {
		ctx, capture := observe.RecordTimeline(t.Context())
		resp, err := c.Do(ctx, request(t, "GET", server.URL, nil), key)
		if err != nil || resp.StatusCode != 404 {
			t.Fatalf("call %d: %v, %v", i, resp, err)
		}
		resp.Body.Close()
		timeline, _ := capture.Timeline()
		if got := timeline.Attempts[0].Outcome.Category.String(); got != "business" {
			t.Errorf("category %q, want business", got)
		}
	}
}

func TestR11UnrepeatablePostCountsAsFailure(t *testing.T) {
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	e, _ := recording(t, func(p *policy.Policy) {
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 2}
	})
	c := tenethttp.Client{HTTP: client, Executor: e}
	for range 2 {
		resp := do(t.Context(), t, &c, request(t, "POST", server.URL, nil))
		resp.Body.Close()
	}
	body := &spy{Reader: strings.NewReader("x")}
	if _, err := c.Do(t.Context(), request(t, "POST", server.URL, body), key); !errors.Is(err, retry.ErrCircuitOpen) {
		t.Errorf("error %v, want an open circuit", err)
	}
	if !body.isClosed() {
		t.Error("the body of a request that was not sent stays open")
	}
}

func TestRecordsHoldNoQuery(t *testing.T) {
	e, _ := recording(t)
	c := tenethttp.Client{Executor: e, HTTP: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("lost")
	})}}
	ctx, capture := observe.RecordTimeline(t.Context())
	_, err := c.Do(ctx, request(t, "GET", "http://user:pw@x/users/1?token=secret#frag", nil), key)
	timeline, _ := capture.Timeline()
	text := fmt.Sprint(err, timeline.FinalError)
	for _, a := range timeline.Attempts {
		text += a.Err.Error()
	}
	for _, secret := range []string{"secret", "pw", "frag"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q shows in %s", secret, text)
		}
	}
	if !strings.Contains(text, `Get "http://x/users/1": lost`) {
		t.Errorf("the address is missing in %s", text)
	}
}

func TestO3AnInvalidLocationIsNotShown(t *testing.T) {
	e, _ := recording(t)
	c := tenethttp.Client{Executor: e, HTTP: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return answer(302, "", "Location", "http://a b/?token=s3cret"), nil
	})}}
	_, err := c.Do(t.Context(), request(t, "GET", "http://x/", nil), key)
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "Location") {
		t.Error(err)
	}
}

// TestACustomClassifierSeesTheResponse: a custom classifier may treat a successful response as a failure; the caller still gets
// the response.
func TestACustomClassifierSeesTheResponse(t *testing.T) {
	o := options(t, fixed(func(p *policy.Policy) { p.Retry.ClassifierName = "strict" }))
	o.Classifiers = strict()
	e, _ := tenettest.NewExecutor(o)
	attempts := 0
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		attempts++
		fmt.Fprint(w, "error inside ", attempts)
	})
	c := tenethttp.Client{HTTP: client, Executor: e}
	resp := do(t.Context(), t, &c, request(t, "GET", server.URL, nil))
	if got := read(t, resp); got != "error inside 3" {
		t.Errorf("body %q, want that of the third attempt", got)
	}
}

// TestR9AnAnswerThatComesAsItsAttemptEndsIsNotReturned: its body could not be read any more.
func TestR9AnAnswerThatComesAsItsAttemptEndsIsNotReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := recording(t, func(p *policy.Policy) { p.Retry.TimeoutPerAttempt = time.Second })
		late, body := spied(http.StatusOK, "late")
		transport := steps(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return late, nil
		}, after(0, answer(http.StatusOK, "in time"), nil))
		client := tenethttp.Client{HTTP: &http.Client{Transport: transport}, Executor: e}
		ctx, capture := observe.RecordTimeline(t.Context())
		resp := do(ctx, t, &client, request(t, http.MethodGet, "http://example.com", nil))
		if got := read(t, resp); got != "in time" || !body.isClosed() {
			t.Errorf("%q, the other body is closed: %v", got, body.isClosed())
		}
		if timeline, _ := capture.Timeline(); timeline.Attempts[0].Outcome.Reason != policy.ReasonAttemptTimeout {
			t.Errorf("%+v", timeline.Attempts[0])
		}
	})
}

// TestR9AnAnswerWithoutABodyIsReturned, although its attempt ended as it came: what was done is done.
func TestR9AnAnswerWithoutABodyIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := recording(t, func(p *policy.Policy) { p.Retry.TimeoutPerAttempt = time.Second })
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody}, nil
		})
		client := tenethttp.Client{HTTP: &http.Client{Transport: transport}, Executor: e}
		resp := do(t.Context(), t, &client, request(t, http.MethodPost, "http://example.com", nil))
		read(t, resp)
	})
}
