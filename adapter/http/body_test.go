package tenethttp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

const large = 16 << 20

// randomBody is 16 MiB of incompressible data.
func randomBody() []byte {
	b := make([]byte, large)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// TestLargeBodiesThroughARetriedRequest checks that a retry sends a large request in full and returns a large response in
// full.
func TestLargeBodiesThroughARetriedRequest(t *testing.T) {
	want := randomBody()
	var sums [][32]byte
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sums = append(sums, sha256.Sum256(b))
		if len(sums) < 3 {
			w.WriteHeader(503)
			return
		}
		w.Write(b)
	})
	e, _ := recording(t)
	c := tenethttp.Client{HTTP: client, Executor: e}
	resp := do(t.Context(), t, &c, request(t, "PUT", server.URL, bytes.NewReader(want)))
	if got := read(t, resp); got != string(want) {
		t.Errorf("%d bytes came back, changed", len(got))
	}
	sum := sha256.Sum256(want)
	if diff := cmp.Diff([][32]byte{sum, sum, sum}, sums); diff != "" {
		t.Error("a retried request had another body")
	}
}

// TestR9BodyOutlivesTheTimeouts reads a body for 160 virtual seconds, far beyond the timeouts of the attempt and the call,
// after a retry.
func TestR9BodyOutlivesTheTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int32
		client, stop := bubble(func(w http.ResponseWriter, r *http.Request) {
			switch attempts.Add(1) {
			case 1:
				<-r.Context().Done() // a hang: the attempt's timeout ends it
			case 2:
				w.WriteHeader(503)
			default:
				chunk := make([]byte, 1<<20)
				for range large / len(chunk) {
					w.Write(chunk)
					time.Sleep(10 * time.Second)
				}
			}
		})
		defer stop()
		p := fixed(func(p *policy.Policy) {
			p.Retry.TimeoutPerAttempt, p.Retry.OverallTimeout = 300*time.Millisecond, 2*time.Second
		})
		c := tenethttp.Client{HTTP: client, Executor: retry.NewExecutor(options(t, p))}
		start := time.Now()
		resp := do(t.Context(), t, &c, request(t, "GET", "http://x/", nil))
		if took := time.Since(start); took != 320*time.Millisecond {
			t.Errorf("the headers took %s, want 300ms for the hang and two waits of 10ms", took)
		}
		if got := read(t, resp); len(got) != large {
			t.Errorf("%d bytes, want 16 MiB", len(got))
		}
		if took := time.Since(start); took < 2*time.Minute {
			t.Errorf("the body took only %s: it did not outlive a timeout", took)
		}
	})
}

// TestLastErrorBodyOutlivesTheTimeout checks that the caller can read a slow error body when no attempt is left.
func TestLastErrorBodyOutlivesTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, stop := bubble(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			http.NewResponseController(w).Flush()
			select {
			case <-time.After(5 * time.Second):
			case <-r.Context().Done():
			}
			io.WriteString(w, "why")
		})
		defer stop()
		p := fixed(func(p *policy.Policy) { p.Retry.TimeoutPerAttempt = time.Second })
		c := tenethttp.Client{HTTP: client, Executor: retry.NewExecutor(options(t, p))}
		start := time.Now()
		resp := do(t.Context(), t, &c, request(t, "GET", "http://x/", nil))
		if took, want := time.Since(start), 220*time.Millisecond; took != want { // two waits, two drains of 100 ms
			t.Errorf("the headers took %s, want %s: a slow body is drained for 100ms", took, want)
		}
		if got := read(t, resp); got != "why" {
			t.Errorf("body %q", got)
		}
	})
}

func TestAttemptTimeoutWithoutAResponse(t *testing.T) {
	for method, want := range map[string]int32{"GET": 3, "POST": 1} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var attempts atomic.Int32
				client, stop := bubble(func(w http.ResponseWriter, r *http.Request) {
					attempts.Add(1)
					<-r.Context().Done()
				})
				defer stop()
				p := fixed(func(p *policy.Policy) { p.Retry.TimeoutPerAttempt = 300 * time.Millisecond })
				c := tenethttp.Client{HTTP: client, Executor: retry.NewExecutor(options(t, p))}
				_, err := c.Do(t.Context(), request(t, method, "http://x/", nil), key)
				if !errors.Is(err, context.DeadlineExceeded) || attempts.Load() != want {
					t.Errorf("%v after %d attempts, want a timeout after %d: the method decides before the timeout", err, attempts.Load(), want)
				}
			})
		})
	}
}

func TestCallerCancelsWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		client, stop := bubble(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "start")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(gone)
		})
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		c := tenethttp.Client{HTTP: client, Executor: retry.NewExecutor(options(t, fixed()))}
		resp := do(ctx, t, &c, request(t, "GET", "http://x/", nil))
		time.AfterFunc(time.Second, cancel)
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("reading ended with %v, want a cancellation", err)
		}
		resp.Body.Close()
		<-gone
	})
}

func TestClientTimeoutStillBoundsTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, stop := bubble(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		defer stop()
		client := &http.Client{
			Transport: &tenethttp.Transport{Base: inner.Transport, Executor: retry.NewExecutor(options(t, fixed()))},
			Timeout:   3 * time.Second,
		}
		defer client.CloseIdleConnections()
		start := time.Now()
		resp, err := client.Get("http://x/")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err == nil || time.Since(start) != 3*time.Second {
			t.Errorf("reading ended with %v after %s, want a timeout after 3s", err, time.Since(start))
		}
		resp.Body.Close()
	})
}

func TestClosingTheBodyEndsTheContext(t *testing.T) {
	for name, end := range map[string]func(*http.Response){
		"closed":      func(r *http.Response) { r.Body.Close() },
		"read to end": func(r *http.Response) { io.Copy(io.Discard, r.Body) },
	} {
		t.Run(name, func(t *testing.T) {
			var attempt context.Context
			e, _ := recording(t)
			tr := &tenethttp.Transport{Executor: e, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
				attempt = r.Context()
				return answer(200, "text"), nil
			})}
			req := request(t, "GET", "http://x/", nil)
			resp, err := tr.RoundTrip(req)
			if err != nil || attempt.Err() != nil {
				t.Fatalf("after the call: %v, %v", err, attempt.Err())
			}
			if resp.Request != req {
				t.Error("the response does not belong to the caller's request")
			}
			end(resp)
			if attempt.Err() == nil {
				t.Error("the attempt's context was not cancelled")
			}
		})
	}
}

func TestErrorBodiesAreDrainedSoThatConnectionsAreReused(t *testing.T) {
	n := 0
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; n < 3 {
			w.WriteHeader(503)
			io.WriteString(w, strings.Repeat("x", 60<<10))
		}
	})
	reused := []bool{}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) },
	})
	e, _ := recording(t)
	c := tenethttp.Client{HTTP: client, Executor: e}
	resp := do(ctx, t, &c, request(t, "GET", server.URL, nil))
	resp.Body.Close()
	if diff := cmp.Diff([]bool{false, true, true}, reused); diff != "" {
		t.Error(diff)
	}
}

// endless is an infinite body.
type endless struct {
	read   int
	closed bool
}

func (e *endless) Read(p []byte) (int, error) { e.read += len(p); return len(p), nil }
func (e *endless) Close() error               { e.closed = true; return nil }

func TestDrainingIsBounded(t *testing.T) {
	body, known := &endless{}, &endless{}
	n := 0
	e, _ := recording(t)
	tr := &tenethttp.Transport{Executor: e, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		switch n++; n {
		case 1:
			return &http.Response{StatusCode: 503, Body: body, ContentLength: -1}, nil
		case 2:
			return &http.Response{StatusCode: 503, Body: known, ContentLength: 1 << 30}, nil
		}
		return answer(200, ""), nil
	})}
	resp, err := tr.RoundTrip(request(t, "GET", "http://x/", nil))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if body.read < 64<<10 || body.read > 128<<10 || !body.closed {
		t.Errorf("%d bytes read, closed %t; want about 64 KiB and closed", body.read, body.closed)
	}
	if known.read != 0 || !known.closed {
		t.Errorf("%d bytes read, closed %t; a body known to be too long is closed at once", known.read, known.closed)
	}
}

func TestBodyWithoutGetBodyIsSentOnce(t *testing.T) {
	for name, result := range map[string]func() (*http.Response, error){
		"after 503":          func() (*http.Response, error) { return answer(503, "busy"), nil },
		"after an error":     func() (*http.Response, error) { return nil, errors.New("lost") },
		"even if never sent": func() (*http.Response, error) { return nil, &unreachable{} },
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			e, _ := recording(t)
			tr := &tenethttp.Transport{Executor: e, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
				attempts++
				if b, _ := io.ReadAll(r.Body); string(b) != "once" {
					t.Errorf("body %q", b)
				}
				r.Body.Close()
				return result()
			})}
			body := &spy{Reader: strings.NewReader("once")}
			resp, err := tr.RoundTrip(request(t, "PUT", "http://x/", body))
			if attempts != 1 || !body.isClosed() {
				t.Errorf("%d attempts, closed %t; want 1 and closed", attempts, body.isClosed())
			}
			if err == nil && read(t, resp) != "busy" {
				t.Error("the response is not intact")
			}
		})
	}
}

type unreachable struct{}

func (*unreachable) Error() string { return "unreachable" }

func TestRequestBodyIsAlwaysClosed(t *testing.T) {
	tests := map[string]struct {
		canceled bool
		get      func() (io.ReadCloser, error)
		wantErr  bool
	}{
		"success":                {false, func() (io.ReadCloser, error) { return &spy{Reader: strings.NewReader("x")}, nil }, false},
		"no attempt":             {true, nil, true},
		"no attempt, replayable": {true, func() (io.ReadCloser, error) { return nil, errors.New("unused") }, true},
		"GetBody fails":          {false, func() (io.ReadCloser, error) { return nil, errors.New("file is gone") }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, _ := recording(t)
			tr := &tenethttp.Transport{Executor: e, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
				r.Body.Close()
				return answer(200, ""), nil
			})}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.canceled {
				cancel()
			}
			body := &spy{Reader: strings.NewReader("x")}
			req := request(t, "PUT", "http://x/", body).WithContext(ctx)
			req.GetBody = tt.get
			resp, err := tr.RoundTrip(req)
			if (err != nil) != tt.wantErr || !body.isClosed() {
				t.Errorf("error %v, closed %t; want error %t and closed", err, body.isClosed(), tt.wantErr)
			}
			if err == nil {
				resp.Body.Close()
			}
		})
	}
}

func TestUpgradedConnectionsCanBeWritten(t *testing.T) {
	conn := &upgradedConn{}
	e, _ := recording(t)
	var attempt context.Context
	tr := &tenethttp.Transport{Executor: e, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		attempt = r.Context()
		return &http.Response{StatusCode: 101, Body: conn}, nil
	})}
	resp, err := tr.RoundTrip(request(t, "GET", "http://x/", nil))
	if err != nil {
		t.Fatal(err)
	}
	w, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("the body is a %T and cannot be written to", resp.Body)
	}
	io.WriteString(w, "ping")
	if _, err := w.Read(nil); err != io.EOF || attempt.Err() != nil {
		t.Errorf("read: %v, context: %v; the other direction must stay open", err, attempt.Err())
	}
	w.Close()
	if conn.String() != "ping" || attempt.Err() == nil {
		t.Errorf("wrote %q, context %v", conn.String(), attempt.Err())
	}
}

type upgradedConn struct{ bytes.Buffer }

func (*upgradedConn) Read([]byte) (int, error) { return 0, io.EOF }
func (*upgradedConn) Close() error             { return nil }

func TestMissingBodyIsReplaced(t *testing.T) {
	e, _ := recording(t)
	tr := &tenethttp.Transport{Executor: e, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200}, nil
	})}
	resp, err := tr.RoundTrip(request(t, "GET", "http://x/", nil))
	if err != nil || read(t, resp) != "" {
		t.Error(resp, err)
	}
}
