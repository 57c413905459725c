package tenethttp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// shedding serves a handler under a limit.
func shedding(t *testing.T, p policy.Policy, handler http.HandlerFunc) (serve func(ctx context.Context) *httptest.ResponseRecorder) {
	t.Helper()
	compiled, err := policy.Compile(p, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: policy.NewSet(policy.SetConfig{Calls: compiled})})
	h := tenethttp.Shed(tenethttp.ServerOptions{
		Executor: e, Key: func(r *http.Request) policy.Key { return policy.Key{Namespace: "api", Name: r.Method} },
	})(handler)
	return func(ctx context.Context) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		return w
	}
}

func TestB4AServerShedsWith503AndRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		limit  policy.Limit
		reason string
		after  string
	}{
		"concurrency": {policy.Limit{Concurrency: 1}, "concurrency_limited", "1"},
		"rate":        {policy.Limit{Rate: policy.Rate{Count: 1, Per: time.Minute}}, "rate_limited", "60"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				serve := shedding(t, policy.Policy{Limit: c.limit}, func(w http.ResponseWriter, r *http.Request) {
					calls++
					time.Sleep(time.Second)
					_, _ = io.WriteString(w, "done")
				})
				first := make(chan *httptest.ResponseRecorder, 1)
				go func() { first <- serve(t.Context()) }()
				synctest.Wait()
				w := serve(t.Context())
				var body struct {
					Type   string
					Status int
				}
				if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
					t.Fatal(err)
				}
				if w.Code != 503 || w.Header().Get("Retry-After") != c.after || body.Type != "urn:tenet:shed:"+c.reason || body.Status != 503 {
					t.Errorf("%d %v %+v", w.Code, w.Header(), body)
				}
				if w := <-first; w.Code != 200 || w.Body.String() != "done" || calls != 1 {
					t.Errorf("%d %q, %d calls", w.Code, w.Body, calls)
				}
			})
		})
	}
}

// TestB4AServerNeverRepeatsAHandler: whatever the policy says and however the handler ends.
func TestB4AServerNeverRepeatsAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy.Policy{
			Retry: policy.Retry{MaxAttempts: 5, TimeoutPerAttempt: time.Second}, Hedge: policy.Hedge{Enabled: true, HedgeDelay: 10 * time.Millisecond},
			Limit: policy.Limit{Concurrency: 1},
		}
		for name, handler := range map[string]http.HandlerFunc{
			"500":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
			"timeout": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done(); w.WriteHeader(504) },
			"slow":    func(w http.ResponseWriter, _ *http.Request) { time.Sleep(500 * time.Millisecond); w.WriteHeader(500) },
			"panic":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		} {
			calls := 0
			serve := shedding(t, p, func(w http.ResponseWriter, r *http.Request) { calls++; handler(w, r) })
			for range 2 { // the second request finds the place free
				func() {
					defer func() {
						if v := recover(); (v != nil) != (name == "panic") {
							t.Errorf("%s: panic %v", name, v)
						}
					}()
					if w := serve(t.Context()); w.Code != 500 && w.Code != 504 {
						t.Errorf("%s: status %d", name, w.Code)
					}
				}()
			}
			if calls != 2 {
				t.Errorf("%s: %d calls of the handler for 2 requests", name, calls)
			}
		}
	})
}

func TestB4AWaitingRequestLeavesTheLineWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serve := shedding(t, policy.Policy{Limit: policy.Limit{Concurrency: 1, MaxWait: time.Minute}}, func(http.ResponseWriter, *http.Request) {
			time.Sleep(10 * time.Second)
		})
		go serve(t.Context())
		synctest.Wait()
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if w := serve(gone); w.Code != 503 || time.Since(begin) != time.Second {
			t.Errorf("%d after %s", w.Code, time.Since(begin))
		}
		if w := serve(t.Context()); w.Code != 200 || time.Since(begin) != 20*time.Second {
			t.Errorf("%d after %s", w.Code, time.Since(begin))
		}
	})
}

// TestB4ATimedOutRequestWithoutAnAnswerGets503: a handler often returns when its context ends, as database/sql does.
func TestB4ATimedOutRequestWithoutAnAnswerGets503(t *testing.T) {
	for name, c := range map[string]struct {
		write func(http.ResponseWriter)
		want  int
	}{
		"nothing": {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "1000") }, 503},
		"status":  {func(w http.ResponseWriter) { w.WriteHeader(202) }, 202},
		"body":    {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "rows") }, 200},
		"flush":   {func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				serve := shedding(t, policy.Policy{Retry: policy.Retry{TimeoutPerAttempt: time.Second}}, func(w http.ResponseWriter, r *http.Request) {
					c.write(w)
					<-r.Context().Done()
				})
				w := serve(t.Context())
				refused := w.Header().Get("Retry-After") == "1" && w.Header().Get("Content-Length") == ""
				if w.Code != c.want || refused != (c.want == 503) {
					t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
				}
			})
		})
	}
}

func TestB4AShedHandlerMayHijack(t *testing.T) {
	shed := tenethttp.Shed(tenethttp.ServerOptions{Key: func(*http.Request) policy.Key { return key }})
	server, client := serve(t, shed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, ok := w.(http.Hijacker)
		if !ok {
			return
		}
		conn, _, err := h.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	})).ServeHTTP)
	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 204 {
		t.Errorf("status %d, want that of the handler", resp.StatusCode)
	}
}
