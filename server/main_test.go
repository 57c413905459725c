package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/testhttp"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// env is a server on a store of its own.
type env struct {
	t       *testing.T
	db      *sqlite.DB
	options Options
	server  *Server
	client  *http.Client
	url     string
	log     *lockedBuffer
	secret  string // of the token that requests carry
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newEnv starts a server with a token that may do everything. change may change its options first.
func newEnv(t *testing.T, change func(*Options)) *env {
	t.Helper()
	e := newStores(t, change)
	e.start()
	return e
}

// inBubble runs a test in virtual time, with a server that is reached without sockets.
func inBubble(t *testing.T, change func(*Options), run func(*testing.T, *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := newStores(t, change)
		e.makeServer()
		e.url, e.client = "http://localhost", &http.Client{Transport: testhttp.Transport{Handler: e.server.Handler()}}
		run(t, e)
	})
}

// newStores opens the stores of an env.
func newStores(t *testing.T, change func(*Options)) *env {
	t.Helper()
	ctx := t.Context()
	db, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "s.db"), sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(ctx, db.Audit(), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, db: db, log: &lockedBuffer{}}
	e.options = Options{
		Stores: Stores{Jobs: db.Jobs(), Records: db.Idempotency(), Audit: db.Audit(), Policies: memory.Open().Policies()},
		Log:    log, Logger: slog.New(slog.NewJSONHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	e.secret = e.token(policystore.ScopeAdmin)
	if change != nil {
		change(&e.options)
	}
	t.Cleanup(func() {
		e.server.Drain()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := log.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *env) makeServer() {
	e.t.Helper()
	var err error
	if e.server, err = New(e.t.Context(), e.options); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) start() {
	e.t.Helper()
	e.makeServer()
	server := e.server
	site := httptest.NewServer(server.Handler())
	e.url, e.client = site.URL, site.Client()
	e.t.Cleanup(func() {
		server.Drain()
		site.Close()
	})
}

// token makes a token with scopes and returns its secret.
func (e *env) token(scopes ...policystore.Scope) string {
	return e.tokenOf(policystore.Token{Scopes: scopes})
}

func (e *env) tokenOf(t policystore.Token) string {
	e.t.Helper()
	t, secret := NewToken(t)
	if t.Name == "" {
		t.Name = t.ID
	}
	if err := e.options.Policies.AddToken(e.t.Context(), t); err != nil {
		e.t.Fatal(err)
	}
	return secret
}

// call is a request.
type call struct {
	method, path string
	body         any // sent as JSON, unless it is a string
	header       map[string]string
	secret       string // instead of the env's; "-" for none
}

// reply is an answer.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), v); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
}

func (e *env) do(c call) reply {
	e.t.Helper()
	body := ""
	switch b := c.body.(type) {
	case nil:
	case string:
		body = b
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			e.t.Fatal(err)
		}
		body = string(raw)
	}
	r, err := http.NewRequestWithContext(e.t.Context(), c.method, e.url+c.path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.secret == "" {
		c.secret = e.secret
	}
	if c.secret != "-" {
		r.Header.Set("Authorization", "Bearer "+c.secret)
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	answer, err := e.client.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer answer.Body.Close()
	return replyOf(e.t, answer)
}

func replyOf(t *testing.T, answer *http.Response) reply {
	t.Helper()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{answer.StatusCode, answer.Header, string(raw)}
}

// change sends a change with a key of its own.
func (e *env) change(method, path, key string, body any) reply {
	e.t.Helper()
	return e.do(call{method: method, path: path, body: body, header: map[string]string{"Idempotency-Key": key}})
}

func (e *env) get(path string) reply {
	e.t.Helper()
	return e.do(call{method: http.MethodGet, path: path})
}

// enqueue stores jobs and returns their IDs.
func (e *env) enqueue(jobs ...api.NewJobRequest) []string {
	e.t.Helper()
	r := e.change(http.MethodPost, "/v1/jobs", "key-"+jobs[0].Type+jobs[0].Queue, api.Enqueue{Jobs: jobs})
	if r.status != http.StatusOK {
		e.t.Fatalf("enqueue: %d %s", r.status, r.body)
	}
	var out api.Receipts
	r.into(e.t, &out)
	ids := make([]string, len(out.Receipts))
	for i, receipt := range out.Receipts {
		ids[i] = receipt.ID
	}
	return ids
}
