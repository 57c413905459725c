package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// down is a job store that does not answer.
type down struct{ JobStore }

func (down) Queues(context.Context) ([]job.QueueState, error) {
	return nil, errors.New("connection refused to postgres://user:s3cret@h")
}

func TestS6EveryRefusalIsAProblemWithItsStatus(t *testing.T) {
	e := newEnv(t, func(o *Options) { o.Limits.HeaderBytes = 4096 })
	one := api.Enqueue{Jobs: []api.NewJobRequest{{Type: "t"}}}
	post := func(path string, body any, header ...string) call {
		c := call{method: http.MethodPost, path: path, body: body, header: map[string]string{}}
		for i := 0; i < len(header); i += 2 {
			c.header[header[i]] = header[i+1]
		}
		return c
	}
	for name, c := range map[string]struct {
		call
		status int
		says   string
	}{
		"no key":               {post("/v1/jobs", one), 400, "Idempotency-Key"},
		"no type":              {post("/v1/jobs", `{"jobs":[{"type":""}]}`, "Idempotency-Key", "a"), 422, "body.jobs[0].type"},
		"an unknown field":     {post("/v1/jobs", `{"jobs":[{"type":"t","tpye":"t"}]}`, "Idempotency-Key", "b"), 422, "tpye"},
		"another media type":   {post("/v1/jobs", "a=b", "Idempotency-Key", "c", "Content-Type", "application/x-www-form-urlencoded"), 415, "application/json"},
		"too large":            {post("/v1/jobs/search", `{"cursor":"`+strings.Repeat("x", 2<<20)+`"}`), 413, "less"},
		"of the limit":         {post("/v1/jobs/search", padded(1<<20)), 422, "pad"},
		"beyond the limit":     {post("/v1/jobs/search", padded(1<<20+1)), 413, "larger than 1048576 bytes"},
		"of the limit, keyed":  {post("/v1/redrives", padded(1<<20), "Idempotency-Key", "e"), 422, "pad"},
		"beyond it, keyed":     {post("/v1/redrives", padded(1<<20+1), "Idempotency-Key", "f"), 413, "1048576 bytes"},
		"a large payload":      {post("/v1/jobs", `{"jobs":[{"type":"t","payload":"`+strings.Repeat("x", 2<<20)+`"}]}`, "Idempotency-Key", "d"), 413, "body.jobs[0].payload"},
		"no job":               {call{method: http.MethodGet, path: "/v1/jobs/none"}, 404, "not-found"},
		"no path":              {call{method: http.MethodGet, path: "/v2/jobs"}, 404, "openapi.json"},
		"no path, not no job":  {call{method: http.MethodGet, path: "/v2/jobs/none"}, 404, "about:blank"},
		"no method":            {call{method: http.MethodPut, path: "/v1/jobs"}, 405, "PUT"},
		"a bad cursor":         {call{method: http.MethodGet, path: "/v1/jobs?cursor=abc"}, 422, "cursor"},
		"a cursor of another":  {call{method: http.MethodGet, path: "/v1/jobs?cursor=" + string(api.NewCursor("records", "x"))}, 422, "not one of this list"},
		"a bad filter":         {call{method: http.MethodGet, path: "/v1/jobs?filter=stat:dead"}, 422, "character 1"},
		"an unknown parameter": {call{method: http.MethodGet, path: "/v1/jobs?qeueu=x"}, 422, "qeueu"},
		"no If-Match":          {post("/v1/idempotency/clear", api.RecordID{Key: "k"}), 428, "If-Match"},
		"a base that is old":   {post("/v1/documents/x/revisions", api.Publish{Body: "version: 1\n"}, "If-Match", `"7"`), 412, "changed"},
		"a bad document":       {post("/v1/documents/x/revisions", api.Publish{Body: "version: 1\npolicie: {}\n"}, "If-Match", "*"), 422, `"line":2`},
		"a bad token":          {call{method: http.MethodGet, path: "/v1/stats", secret: "tenet_wrong"}, 401, "not valid"},
	} {
		r := e.do(c.call)
		if r.status != c.status || !strings.Contains(r.body, c.says) {
			t.Errorf("%s: %d %s; want %d with %q", name, r.status, r.body, c.status, c.says)
		}
		if after := e.get("/livez"); after.status != 200 {
			t.Errorf("%s: the next request got %d %s", name, after.status, after.body)
		}
		if got := r.header.Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if strings.Contains(e.log.String(), "panic") {
		t.Error(e.log)
	}
}

// padded returns a JSON object of n bytes.
func padded(n int) string {
	const begin, end = `{"pad":"`, `"}`
	return begin + strings.Repeat("x", n-len(begin+end)) + end
}

// TestS6ARequestThatIsCutOffIsNotTheServersFault, with a key and without.
func TestS6ARequestThatIsCutOffIsNotTheServersFault(t *testing.T) {
	e := newEnv(t, nil)
	for _, path := range []string{"/v1/jobs/search", "/v1/jobs", "/v1/documents/mail/reports"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{", path, e.secret)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn)
		if text := string(answer); !strings.HasPrefix(text, "HTTP/1.1 408") || !strings.Contains(text, "problem+json") {
			t.Errorf("%s: %s", path, text)
		}
	}
}

func TestS6TheSameKeyForAnotherRequestIsAMismatch(t *testing.T) {
	e := newEnv(t, nil)
	e.enqueue(api.NewJobRequest{Type: "t"})
	if r := e.change(http.MethodPost, "/v1/jobs", "key-t", api.Enqueue{Jobs: []api.NewJobRequest{{Type: "u"}}}); r.status != 422 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestS6ATagIsKnownAfterAProxyHasCompressedTheAnswer: nginx writes W/ before the tags of such answers.
func TestS6ATagIsKnownAfterAProxyHasCompressedTheAnswer(t *testing.T) {
	e := newEnv(t, nil)
	publish := call{method: http.MethodPost, path: "/v1/documents/pay/revisions", body: api.Publish{Body: fmt.Sprintf(documentText, 3)}, header: map[string]string{"If-Match": "*"}}
	e.do(publish)
	if _, err := e.db.Idempotency().Begin(t.Context(), idempotency.BeginRequest{ID: idempotency.ID{Key: "k"}, Owner: "o", Lease: 1}); err != nil {
		t.Fatal(err)
	}
	for path, change := range map[string]call{
		"/v1/documents/pay":            publish,
		"/v1/idempotency/record?key=k": {method: http.MethodPost, path: "/v1/idempotency/clear", body: api.RecordID{Key: "k"}},
	} {
		change.header = map[string]string{"If-Match": "W/" + e.get(path).header.Get("ETag")}
		if r := e.do(change); r.status >= 300 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func TestS6AReadOnlyServerChangesNothing(t *testing.T) {
	e := newEnv(t, func(o *Options) { o.ReadOnly = true })
	for _, o := range e.server.mux.declared {
		if o.once == reads {
			continue
		}
		r := e.do(call{method: o.Method, path: pathOf(o), header: map[string]string{"Idempotency-Key": "k", "If-Match": "*"}})
		if r.status != 403 || !strings.Contains(r.body, "read-only") {
			t.Errorf("%s: %d %s", o.OperationID, r.status, r.body)
		}
	}
	if r := e.get("/v1/jobs"); r.status != 200 {
		t.Errorf("reading: %d", r.status)
	}
}

func TestS9AStoreThatIsAwayIs503WithRetryAfter(t *testing.T) {
	e := newEnv(t, func(o *Options) { o.Jobs = down{o.Jobs} })
	for _, path := range []string{"/v1/queues", "/readyz"} {
		r := e.get(path)
		if r.status != 503 || strings.Contains(r.body, "s3cret") || path == "/v1/queues" && r.header.Get("Retry-After") != "5" {
			t.Errorf("%s: %d %v %s", path, r.status, r.header, r.body)
		}
	}
	if r := e.get("/livez"); r.status != 200 {
		t.Errorf("/livez: %d", r.status)
	}
}

// asked counts what a job store is asked.
type asked struct {
	JobStore
	n    atomic.Int64
	away atomic.Bool
}

func (a *asked) Queues(ctx context.Context) ([]job.QueueState, error) {
	a.n.Add(1)
	if a.away.Load() {
		return nil, errors.New("the store is away")
	}
	return a.JobStore.Queues(ctx)
}

func TestS9ProbesOfUnknownCallersDoNotReachTheStoreEachTime(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		store := &asked{JobStore: e.options.Jobs}
		e.server.options.Jobs = store
		for range 100 {
			if r := e.do(call{method: http.MethodGet, path: "/readyz", secret: "-"}); r.status != 200 {
				t.Fatalf("%d %s", r.status, r.body)
			}
		}
		if n := store.n.Load(); n != 1 {
			t.Errorf("the store was asked %d times", n)
		}
		time.Sleep(readyEvery)
		if _ = e.get("/readyz"); store.n.Load() != 2 {
			t.Error("the store is not asked again")
		}
		store.away.Store(true)
		time.Sleep(readyEvery)
		for range 100 {
			if r := e.get("/readyz"); r.status != 503 {
				t.Fatalf("%d %s while the store is away", r.status, r.body)
			}
		}
		if n := store.n.Load(); n != 3 {
			t.Errorf("a store that is away was asked %d times", n-2)
		}
	})
}

func TestS9TheRateOfACallerIsBounded(t *testing.T) {
	e := newEnv(t, func(o *Options) { o.Limits.Rate, o.Limits.Burst = 0.001, 2 })
	for i, want := range []int{200, 200, 429} {
		if r := e.get("/v1/stats"); r.status != want || want == 429 && r.header.Get("Retry-After") == "" {
			t.Errorf("request %d: %d", i, r.status)
		}
	}
	if r := e.do(call{method: http.MethodGet, path: "/v1/stats", secret: e.token(policystore.ScopeRead)}); r.status != 200 {
		t.Errorf("another caller: %d", r.status)
	}
}

// tokenReads counts how often tokens are looked up in a store.
type tokenReads struct {
	policystore.Store
	n atomic.Int32
}

func (s *tokenReads) Token(ctx context.Context, hash string) (policystore.Token, error) {
	s.n.Add(1)
	return s.Store.Token(ctx, hash)
}

// TestS9GuessesCostNoLookIntoTheStoreOnceTheirAddressIsOverItsLimit. Tokens that are known go on from there, also after another was revoked.
func TestS9GuessesCostNoLookIntoTheStoreOnceTheirAddressIsOverItsLimit(t *testing.T) {
	reads := &tokenReads{}
	inBubble(t, func(o *Options) {
		o.Limits.Rate, o.Limits.Burst = 0.001, 5
		reads.Store, o.Policies = o.Policies, reads
	}, func(t *testing.T, e *env) {
		get := func(secret string, want int, looks int32) {
			t.Helper()
			before := reads.n.Load()
			if r := e.do(call{method: http.MethodGet, path: "/v1/session", secret: secret}); r.status != want || reads.n.Load()-before != looks {
				t.Errorf("%d after %d looks, want %d after %d", r.status, reads.n.Load()-before, want, looks)
			}
		}
		get(e.secret, 200, 1)
		gone := e.tokenOf(policystore.Token{Name: "n", Scopes: policystore.Scopes()})
		get(gone, 200, 1)
		for i := range 5 {
			get("tenet_"+strconv.Itoa(i), 401, 1)
		}
		get("tenet_5", 429, 0)
		get(e.token(policystore.ScopeRead), 429, 0) // nobody knows that it is valid
		get(e.secret, 200, 0)
		time.Sleep(tokenTime)
		get(e.secret, 200, 1)
		list, err := reads.Tokens(t.Context(), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		id := list[slices.IndexFunc(list, func(t policystore.Token) bool { return t.Name == "n" })].ID
		if r := e.change(http.MethodDelete, "/v1/tokens/"+id, "r", nil); r.status != 204 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		get(gone, 429, 1)
		get(gone, 429, 0)
		get(e.secret, 200, 1)
		time.Sleep(1001 * time.Second)
		get(e.token(policystore.ScopeRead), 200, 1) // which costs the address nothing
		get("tenet_6", 401, 1)
		get("tenet_7", 429, 0)
	})
}

func TestS9CallersOfDifferentKindsHaveRatesOfTheirOwn(t *testing.T) {
	e := newEnv(t, func(o *Options) {
		o.Limits.Rate, o.Limits.Burst = 0.001, 1
		o.Authenticate = func(r *http.Request) (*Caller, error) {
			if r.Header.Get("X-User") == "" {
				return nil, nil
			}
			return &Caller{Name: "ann", Scopes: policystore.Scopes()}, nil
		}
	})
	token := e.tokenOf(policystore.Token{Name: "ann", Scopes: policystore.Scopes()})
	for i, want := range []int{200, 429} {
		if r := e.do(call{method: http.MethodGet, path: "/v1/stats", secret: token}); r.status != want {
			t.Errorf("request %d with the token: %d", i, r.status)
		}
		if r := e.do(call{method: http.MethodGet, path: "/v1/stats", secret: "-", header: map[string]string{"X-User": "ann"}}); r.status != want {
			t.Errorf("request %d of the user of the same name: %d", i, r.status)
		}
	}
}

func TestS6NothingIsDoneThatIsNotOnRecord(t *testing.T) {
	e := newEnv(t, nil)
	if err := e.options.Log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := e.change(http.MethodPost, "/v1/jobs", "k", api.Enqueue{Jobs: []api.NewJobRequest{{Type: "t"}}}); r.status != 503 || !strings.Contains(r.body, "nothing was done") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if list, err := e.db.Jobs().List(t.Context(), job.Filter{}, "", 10); err != nil || len(list) != 0 {
		t.Errorf("stored: %v, %v", list, err)
	}
}

func TestS9TwoServersShareAStore(t *testing.T) {
	e := newEnv(t, nil)
	first := *e
	e.start()
	ids := e.enqueue(api.NewJobRequest{Type: "t"})
	if again := first.enqueue(api.NewJobRequest{Type: "t"}); again[0] != ids[0] {
		t.Errorf("the key counts on one server only: %v, %v", ids, again)
	}
	if r := first.get("/v1/jobs/" + ids[0]); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}
