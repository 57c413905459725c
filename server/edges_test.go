package server

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// TestS9AnAnswerThatIsCutOffDoesNotLookComplete: a handler panics behind its first byte.
func TestS9AnAnswerThatIsCutOffDoesNotLookComplete(t *testing.T) {
	for _, reason := range []any{http.ErrAbortHandler, "fault"} {
		e := newStores(t, nil)
		e.makeServer()
		e.server.Mount("/x", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			panic(reason)
		}))
		s := httptest.NewServer(e.server.Handler())
		a, err := s.Client().Get(s.URL + "/x")
		if err == nil {
			_, err = io.ReadAll(a.Body)
			_ = a.Body.Close()
		}
		if err == nil {
			t.Errorf("%v: an answer that was cut off looks complete", reason)
		}
		s.Close()
	}
}

func TestS3ALabelWithoutAValueSelectsNoOtherClients(t *testing.T) {
	e := newEnv(t, nil)
	if err := e.options.Policies.SaveClients(t.Context(), []policystore.Client{
		{Document: "d", ID: "a", LastSeen: time.Now()}, {Document: "d", ID: "b", Labels: map[string]string{"region": "eu"}, LastSeen: time.Now()},
	}); err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string][]string{"region": nil, "region=": nil, "region=eu": {"b"}, "": {"a", "b"}} {
		var out api.Clients
		e.get("/v1/clients?label="+url.QueryEscape(label)).into(t, &out)
		var ids []string
		for _, c := range out.Clients {
			ids = append(ids, c.ID)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, want) {
			t.Errorf("%q: %v", label, ids)
		}
	}
}

// TestS1TheDLQSelectsDeadJobsOnly: a filter for other jobs must not purge dead ones.
func TestS1TheDLQSelectsDeadJobsOnly(t *testing.T) {
	e := newEnv(t, nil)
	for body, want := range map[string]int{
		`{"filter":{"filter":"state:dead queue:mail"}}`: http.StatusOK,
		`{"filter":{"filter":"queue:mail"}}`:            http.StatusOK,
		`{"filter":{"states":["dead"]}}`:                http.StatusOK,
		`{"filter":{"states":["cancelled"]}}`:           http.StatusUnprocessableEntity,
		`{"filter":{"filter":"state:completed"}}`:       http.StatusUnprocessableEntity,
	} {
		for _, verb := range []string{"purge", "requeue"} {
			if r := e.change("POST", "/v1/dlq/"+verb, verb+strconv.Itoa(len(body)), body); r.status != want {
				t.Errorf("%s %s: %d %s", verb, body, r.status, r.body)
			}
		}
	}
}

// TestS1AVersionAllowsOneChange: of changes made at once from the same version, one is made and the others are refused.
func TestS1AVersionAllowsOneChange(t *testing.T) {
	e := newEnv(t, nil)
	var group sync.WaitGroup
	answers := make([]int, 8)
	for i := range answers {
		group.Go(func() {
			n := strconv.Itoa(i)
			answers[i] = e.change(http.MethodPut, "/v1/settings/concurrency/q"+n, "key-"+n, `{"value":1`+n+`,"version":0}`).status
		})
	}
	group.Wait()
	slices.Sort(answers)
	if answers[0] != http.StatusOK || answers[1] != http.StatusConflict || answers[7] != http.StatusConflict {
		t.Errorf("answers: %v", answers)
	}
}

// TestS5AStreamEndsWithItsToken: what is open when a token is revoked does not go on.
func TestS5AStreamEndsWithItsToken(t *testing.T) {
	e := newEnv(t, nil)
	token, secret := NewToken(policystore.Token{Name: "reader", Scopes: []policystore.Scope{policystore.ScopeRead}})
	if err := e.options.Policies.AddToken(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+"/v1/events?topics=stats", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	a, err := e.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, a.Body)
	}()
	if r := e.change(http.MethodDelete, "/v1/tokens/"+token.ID, "k", nil); r.status != http.StatusNoContent {
		t.Fatal(r)
	}
	select {
	case <-ended:
	case <-time.After(3 * tokenTime):
		t.Error("the stream goes on")
	}
}

// TestS5AStreamEndsWithItsTokenWhileItsAddressIsOverItsLimit, even if the server does not remember the token.
func TestS5AStreamEndsWithItsTokenWhileItsAddressIsOverItsLimit(t *testing.T) {
	inBubble(t, func(o *Options) { o.Limits.Rate, o.Limits.Burst = 0.001, 5 }, func(t *testing.T, e *env) {
		admin := e.secret
		token, secret := NewToken(policystore.Token{Name: "reader", Scopes: []policystore.Scope{policystore.ScopeRead}})
		if err := e.options.Policies.AddToken(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e.secret = secret
		events := e.events(ctx, "?topics=pulse", "")
		e.secret = admin
		if r := e.change(http.MethodDelete, "/v1/tokens/"+token.ID, "k", nil); r.status != http.StatusNoContent {
			t.Fatal(r)
		}
		e.server.identity.lose(token.Hash)
		for range 6 {
			e.do(call{method: http.MethodGet, path: "/v1/session", secret: "tenet_wrong"})
		}
		time.AfterFunc(3*tokenTime, cancel)
		for range events { // until the end
		}
		if ctx.Err() != nil {
			t.Error("the stream goes on")
		}
	})
}

// TestS9ABodyThatNeverComesIsNotWaitedForForEver: also where no operation reads it.
func TestS9ABodyThatNeverComesIsNotWaitedForForEver(t *testing.T) {
	e := newStores(t, nil)
	e.makeServer()
	e.server.Mount("/mounted", http.NotFoundHandler())
	for name, head := range map[string]string{
		"an operation": "GET /livez HTTP/1.1\r\n", "no path": "POST /nothing HTTP/1.1\r\n", "no method": "PUT /v1/jobs HTTP/1.1\r\n", "a path to clean": "POST //v1/jobs HTTP/1.1\r\n",
		"another site": "POST /v1/jobs HTTP/1.1\r\nSec-Fetch-Site: cross-site\r\n", "a mounted handler": "POST /mounted HTTP/1.1\r\n",
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + "Host: localhost\r\nContent-Length: 100\r\n\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		e.server.Handler().ServeHTTP(w, r)
		if left := time.Until(w.read); left <= 0 || left > callTime || time.Until(w.write) <= 0 {
			t.Errorf("%s: deadlines %v and %v", name, w.read, w.write)
		}
	}
}

// deadlines is a writer that remembers the deadlines of its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }
