package tenethttp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/testguard"
)

// shop is a server with one guarded endpoint; runs counts the handler's executions.
type shop struct {
	*httptest.Server
	store   *testguard.Store
	runs    atomic.Int64
	handler atomic.Pointer[http.HandlerFunc]
}

func newShop(t *testing.T, o tenethttp.IdempotencyOptions) *shop {
	t.Helper()
	s := &shop{store: testguard.NewStore()}
	guard, err := idempotency.NewGuard(s.store, idempotency.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.handle(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Location", "/orders/7")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "made of %s", body)
	})
	mux := http.NewServeMux()
	mux.Handle("/orders", tenethttp.Idempotent(guard, o)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		(*s.handler.Load())(w, r)
	})))
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) handle(h http.HandlerFunc) { s.handler.Store(&h) }

type reply struct {
	Status           int
	Body, Type       string
	Replayed, After  string
	Location, Cookie string
}

func (s *shop) send(t *testing.T, method, body string, keys ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/orders", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		r.Header.Add(tenethttp.HeaderIdempotencyKey, k)
	}
	response, err := s.Client().Do(r)
	if err != nil {
		return reply{Body: err.Error()}
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	h := response.Header
	if h.Get("Content-Type") == "application/problem+json" {
		var p struct{ Type string }
		if err := json.Unmarshal(text, &p); err != nil {
			t.Errorf("no problem document: %s", text)
		}
		text = nil
		h.Set("Content-Type", p.Type)
	}
	return reply{response.StatusCode, string(text), h.Get("Content-Type"), h.Get(tenethttp.HeaderReplayed), h.Get("Retry-After"), h.Get("Location"), h.Get("Set-Cookie")}
}

func TestI7RepetitionsGetTheStoredResponse(t *testing.T) {
	s := newShop(t, tenethttp.IdempotencyOptions{})
	first := s.send(t, "POST", "a", "k1")
	again := s.send(t, "POST", "a", `"k1"`) // the same key in the quoted form of the IETF draft
	if first.Status != http.StatusCreated || first.Body != "made of a" || first.Replayed != "" {
		t.Errorf("%+v", first)
	}
	first.Replayed = "true"
	if diff := cmp.Diff(first, again); diff != "" || s.runs.Load() != 1 {
		t.Errorf("%d runs: %s", s.runs.Load(), diff)
	}
	if other := s.send(t, "POST", "b", "k1"); other.Status != http.StatusUnprocessableEntity || other.Type != "urn:tenet:idempotency:mismatch" {
		t.Errorf("another request under the key: %+v", other)
	}
	if s.send(t, "POST", "b", "k2"); s.runs.Load() != 2 {
		t.Error("another key did not run")
	}
}

func TestI7BadKeysAreRejected(t *testing.T) {
	s := newShop(t, tenethttp.IdempotencyOptions{})
	for name, keys := range map[string][]string{
		"missing": nil, "empty": {""}, "empty string": {`""`}, "two": {"a", "b"}, "long": {strings.Repeat("k", 256)}, "open": {`"a`},
		"inner quote": {`"a"b"`}, "escape": {`"a\b"`}, "only a quote": {`"`},
	} {
		if got := s.send(t, "POST", "a", keys...); got.Status != http.StatusBadRequest || !strings.HasPrefix(got.Type, "urn:tenet:idempotency:") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if s.runs.Load() != 0 || len(s.store.Records()) != 0 {
		t.Errorf("%d runs, %d records", s.runs.Load(), len(s.store.Records()))
	}
	if got := s.send(t, "GET", ""); got.Status != http.StatusCreated {
		t.Errorf("GET needs no key: %+v", got)
	}
	optional := newShop(t, tenethttp.IdempotencyOptions{Optional: true})
	if got := optional.send(t, "POST", "a"); got.Status != http.StatusCreated {
		t.Errorf("optional: %+v", got)
	}
}

// TestI7AKeyBelongsToItsTenantAndNotToAnEndpoint checks that a key used for two endpoints runs only on the first.
func TestI7AKeyBelongsToItsTenantAndNotToAnEndpoint(t *testing.T) {
	store := testguard.NewStore()
	guard, err := idempotency.NewGuard(store, idempotency.GuardOptions{Operation: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	run := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ })
	named := tenethttp.IdempotencyOptions{Operation: func(*http.Request) string { return "refund" }}
	mux := http.NewServeMux()
	for pattern, handler := range map[string]http.Handler{
		"POST /charges": tenethttp.Idempotent(guard, tenethttp.IdempotencyOptions{})(run),
		"POST /refunds": tenethttp.Idempotent(guard, named)(run),
		"/items/{id}":   tenethttp.Idempotent(guard, tenethttp.IdempotencyOptions{})(run),
		"/v1/":          http.StripPrefix("/v1", tenethttp.Idempotent(guard, tenethttp.IdempotencyOptions{})(run)),
		"/v2/":          http.StripPrefix("/v2", tenethttp.Idempotent(guard, tenethttp.IdempotencyOptions{})(run)),
	} {
		mux.Handle(pattern, handler)
	}
	for _, c := range []struct{ first, second, method string }{
		{"/charges", "/refunds", "POST"}, {"/refunds", "/charges", "POST"}, {"/items/1", "/items/2", "POST"}, {"/items/1", "/items/1", "PATCH"}, {"/v1/a", "/v2/a", "POST"},
	} {
		runs = 0
		key := c.first + c.second + c.method
		for i, r := range []*http.Request{httptest.NewRequest("POST", c.first, nil), httptest.NewRequest("POST", c.first, nil), httptest.NewRequest(c.method, c.second, nil)} {
			r.Header.Set(tenethttp.HeaderIdempotencyKey, key)
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			if want := []int{200, 200, 422}[i]; w.Code != want || runs != 1 {
				t.Errorf("POST %s, then %s %s: request %d got %d after %d runs, want %d", c.first, c.method, c.second, i+1, w.Code, runs, want)
			}
		}
		record, err := store.Get(t.Context(), idempotency.ID{Operation: "shop", Key: key})
		if err != nil || record.State != idempotency.Completed {
			t.Errorf("%s: the record is under the guard's operation: %+v, %v", key, record.State, err)
		}
	}
}

func TestI7AnyPathIsAnOperation(t *testing.T) {
	guard, err := idempotency.NewGuard(testguard.NewStore(), idempotency.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	handler := tenethttp.Idempotent(guard, tenethttp.IdempotencyOptions{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }))
	for i, path := range []string{"/" + strings.Repeat("a", 300), "/" + strings.Repeat("b", 300), "/a%0Ab"} {
		for range 2 {
			r := httptest.NewRequest(http.MethodPost, path, nil)
			r.Header.Set(tenethttp.HeaderIdempotencyKey, fmt.Sprint("k", i))
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusOK || runs != i+1 {
				t.Errorf("path %d: %d after %d runs", i, w.Code, runs)
			}
		}
	}
}

func TestI7InFlightIsAConflictWithAWait(t *testing.T) {
	s := newShop(t, tenethttp.IdempotencyOptions{})
	entered, leave := make(chan struct{}), make(chan struct{})
	s.handle(func(http.ResponseWriter, *http.Request) { close(entered); <-leave })
	done := make(chan reply)
	go func() { done <- s.send(t, "POST", "a", "k") }()
	<-entered
	twin := s.send(t, "POST", "a", "k")
	close(leave)
	if twin.Status != http.StatusConflict || twin.After == "" || twin.Type != "urn:tenet:idempotency:in-flight" {
		t.Errorf("%+v", twin)
	}
	if first := <-done; first.Status != http.StatusOK {
		t.Errorf("%+v", first)
	}
}

// TestI7ABodyThatIsCutOffMayBeSentAgain: the status is one after which clients do, and the key is free.
func TestI7ABodyThatIsCutOffMayBeSentAgain(t *testing.T) {
	s := newShop(t, tenethttp.IdempotencyOptions{})
	r := httptest.NewRequest(http.MethodPost, "/orders", iotest.ErrReader(io.ErrUnexpectedEOF))
	r.Header.Set(tenethttp.HeaderIdempotencyKey, "k")
	w := httptest.NewRecorder()
	s.Config.Handler.ServeHTTP(w, r)
	if w.Code != http.StatusRequestTimeout || w.Header().Get("Content-Type") != "application/problem+json" || s.runs.Load() != 0 {
		t.Errorf("%d %s, %d runs", w.Code, w.Body, s.runs.Load())
	}
	if got := s.send(t, "POST", "a", "k"); got.Status != http.StatusCreated || got.Replayed != "" {
		t.Errorf("sent again: %+v", got)
	}
}

func TestI7AHundredConcurrentRequestsRunOnce(t *testing.T) {
	s := newShop(t, tenethttp.IdempotencyOptions{})
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if got := s.send(t, "POST", "a", "k"); got.Status != http.StatusCreated && got.Status != http.StatusConflict {
				t.Errorf("%+v", got)
			}
		})
	}
	group.Wait()
	if s.runs.Load() != 1 {
		t.Errorf("%d runs", s.runs.Load())
	}
}

func TestI7ServerErrorsRunAgain(t *testing.T) {
	s := newShop(t, tenethttp.IdempotencyOptions{})
	for i, status := range []int{500, 503, 429, 408, 404} {
		s.handle(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if got := s.send(t, "POST", "a", "k"); got.Status != status || got.Replayed != "" || s.runs.Load() != int64(i+1) {
			t.Errorf("%d: %+v, %d runs", status, got, s.runs.Load())
		}
	}
	if got := s.send(t, "POST", "a", "k"); got.Status != 404 || got.Replayed != "true" {
		t.Errorf("a client error is not stored: %+v", got)
	}
}

func TestI7StoreDownMeansNothingRan(t *testing.T) {
	s := newShop(t, tenethttp.IdempotencyOptions{})
	s.store.Fail(true, false)
	if got := s.send(t, "POST", "a", "k"); got.Status != http.StatusServiceUnavailable || got.After == "" || s.runs.Load() != 0 {
		t.Errorf("%+v, %d runs", got, s.runs.Load())
	}
}

func TestI4APanicLeavesTheOutcomeUnknown(t *testing.T) {
	s := newShop(t, tenethttp.IdempotencyOptions{})
	s.handle(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s.send(t, "POST", "a", "k")
	s.store.Change(func(r *idempotency.Record) { r.Lease = time.Now().Add(-time.Second) }) // as if its lease had expired
	if got := s.send(t, "POST", "a", "k"); got.Status != http.StatusConflict || got.Type != "urn:tenet:idempotency:outcome-unknown" || s.runs.Load() != 1 {
		t.Errorf("%+v, %d runs", got, s.runs.Load())
	}
}

func TestI7LargeBodiesAreRejected(t *testing.T) {
	s := newShop(t, tenethttp.IdempotencyOptions{MaxBody: 3})
	if got := s.send(t, "POST", "abcd", "k"); got.Status != http.StatusRequestEntityTooLarge || s.runs.Load() != 0 {
		t.Errorf("%+v", got)
	}
}

func TestI2TenantsDoNotShareKeys(t *testing.T) {
	tenant := atomic.Pointer[string]{}
	s := newShop(t, tenethttp.IdempotencyOptions{Tenant: func(*http.Request) string { return *tenant.Load() }})
	for _, name := range []string{"a", "b"} {
		tenant.Store(&name)
		if got := s.send(t, "POST", "x", "k"); got.Status != http.StatusCreated || got.Replayed != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestIdempotentRejectsANilGuard(t *testing.T) {
	defer func() {
		if v := recover(); v != "tenethttp: Idempotent: the guard is nil" {
			t.Error(v)
		}
	}()
	tenethttp.Idempotent(nil, tenethttp.IdempotencyOptions{})
}

func TestI7ARequestMayHaveNoBody(t *testing.T) {
	guard, err := idempotency.NewGuard(testguard.NewStore(), idempotency.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := tenethttp.Idempotent(guard, tenethttp.IdempotencyOptions{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusCreated) }))
	r := request(t, "POST", "/orders", nil)
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusCreated {
		t.Errorf("status %d", w.Code)
	}
}

func TestI7AnInvalidStatusPanicsAsInNetHTTP(t *testing.T) {
	for _, status := range []int{0, 1000} {
		s := newShop(t, tenethttp.IdempotencyOptions{})
		s.handle(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() == nil {
					t.Errorf("WriteHeader(%d) does not panic", status)
				}
				panic(http.ErrAbortHandler) // which the server does not log
			}()
			w.WriteHeader(status)
		})
		s.send(t, "POST", "a", "k")
		if got := s.send(t, "POST", "a", "k"); got.Status != http.StatusConflict || s.runs.Load() != 1 {
			t.Errorf("WriteHeader(%d): the repetition got %+v after %d runs", status, got, s.runs.Load())
		}
	}
}

func TestI7HeadersAfterWriteHeaderAreNotSent(t *testing.T) {
	s := newShop(t, tenethttp.IdempotencyOptions{})
	s.handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/orders/7")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("Location", "/late")
	})
	for range 2 {
		if got := s.send(t, "POST", "a", "k"); got.Location != "/orders/7" {
			t.Errorf("got %+v", got)
		}
	}
}
