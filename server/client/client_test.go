package client_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is a server on a store of its own, and a client.
type env struct {
	*client.Client
	db  *sqlite.DB
	url string
	log *audit.Log
}

// start starts a server. wrap may change what it serves.
func start(t *testing.T, wrap func(http.Handler) http.Handler, scopes ...policystore.Scope) *env {
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
	s, err := server.New(ctx, server.Options{
		Stores: server.Stores{Jobs: db.Jobs(), Records: db.Idempotency(), Audit: db.Audit(), Policies: db.Policies()},
		Log:    log, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := s.Handler()
	if wrap != nil {
		handler = wrap(handler)
	}
	h := httptest.NewServer(handler)
	token, secret := server.NewToken(policystore.Token{Name: "test", Scopes: scopes})
	if err := db.Policies().AddToken(ctx, token); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{URL: h.URL, Token: secret, Secrets: slices.Contains(scopes, policystore.ScopeOperate)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err := errors.Join(c.Jobs().Close(), log.Close(ctx))
		h.Close()
		if err := errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
	})
	return &env{c, db, h.URL, log}
}

func TestS7JobsAreTheSameThroughAServer(t *testing.T) {
	e := start(t, nil, policystore.ScopeOperate, policystore.ScopeRead)
	ctx, jobs := t.Context(), e.Jobs()
	producer := job.NewClient(jobs)
	var ids []string
	for i, r := range []job.Request{
		{Type: "mail", Payload: []byte(`{"to": "<a>"}`), Queue: "out/1", MaxAttempts: 3, Timeout: 1500 * time.Millisecond, Meta: map[string]string{"tenant": "acme"}},
		{Type: "mail", Payload: []byte("\xff"), UniqueKey: "u", UniqueFor: time.Hour}, {Type: "bill", RunAt: time.Now().Add(time.Hour), Priority: 2},
	} {
		receipt, err := producer.Enqueue(ctx, r)
		if err != nil || receipt.Existed {
			t.Fatalf("%d: %+v, %v", i, receipt, err)
		}
		ids = append(ids, receipt.ID)
	}
	if r, err := producer.Enqueue(ctx, job.Request{Type: "mail", UniqueKey: "u", UniqueFor: time.Hour}); err != nil || !r.Existed || r.ID != ids[1] {
		t.Errorf("%+v, %v", r, err)
	}
	same := []cmp.Option{cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(job.Record{})}
	for _, f := range []job.Filter{{}, {Type: "mail"}, {Queue: "out/1"}, {States: []job.State{job.Ready}}, {IDs: ids[:2]}} {
		want, err := e.db.Jobs().List(ctx, f, "", 10)
		got, gotErr := jobs.List(ctx, f, "", 10)
		if err != nil || gotErr != nil {
			t.Fatal(err, gotErr)
		}
		if diff := cmp.Diff(want, got, same...); diff != "" {
			t.Errorf("%+v: %s", f, diff)
		}
	}
	if list, err := jobs.List(ctx, job.Filter{}, ids[0], 1); err != nil || len(list) != 1 || list[0].ID != ids[1] {
		t.Errorf("after: %+v, %v", list, err)
	}
	found, err := jobs.Search(ctx, job.Search{Limit: 2, Within: time.Second})
	if err != nil || len(found.Jobs) != 2 || found.Jobs[0].ID != ids[2] || found.Next != ids[1] {
		t.Errorf("searched: %+v, %v", found, err)
	}
	if n, err := jobs.Count(ctx, job.Filter{IDs: ids[1:]}); err != nil || n != (api.JobCount{Count: len(ids) - 1, Exact: true}) {
		t.Errorf("counted: %+v, %v", n, err)
	}
	if _, err := jobs.Change(ctx, "unknown", job.Filter{}, 10); err == nil || err.Error() != job.Action("unknown").Check().Error() {
		t.Errorf("an unknown action: %v", err)
	}
	if changed, err := jobs.Change(ctx, job.ActionCancel, job.Filter{IDs: ids[:1]}, 10); err != nil || len(changed) != 1 {
		t.Errorf("%v, %v", changed, err)
	}
	if err := jobs.SetQueue(ctx, job.QueueState{Queue: "out/1", Paused: true, Reason: "r"}); err != nil {
		t.Error(err)
	}
	want, _ := e.db.Jobs().Queues(ctx)
	got, err := jobs.Queues(ctx)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	wantStats, _ := e.db.Jobs().Stats(ctx)
	stats, err := jobs.Stats(ctx)
	if diff := cmp.Diff(wantStats, stats, cmpopts.IgnoreFields(job.QueueStats{}, "OldestReady")); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, _, err := jobs.Get(ctx, "none"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
	if _, err := jobs.Claim(ctx, job.Claim{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("claim: %v", err)
	}
}

func TestS7RecordsAreTheSameThroughAServer(t *testing.T) {
	e := start(t, nil, policystore.ScopeOperate, policystore.ScopeRead)
	ctx, records := t.Context(), e.Records()
	id := idempotency.ID{Tenant: "t", Operation: "charge", Key: "k 1"}
	begun, err := e.db.Idempotency().Begin(ctx, idempotency.BeginRequest{ID: id, Fingerprint: "f", Owner: "o", Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := records.Clear(ctx, begun.Record.Claim()); !errors.Is(err, idempotency.ErrFenced) {
		t.Errorf("a live claim: %v", err)
	}
	settled := idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: []byte(`{"a":1}`), TTL: time.Hour}
	if err := e.db.Idempotency().Settle(ctx, begun.Record.Claim(), settled); err != nil {
		t.Fatal(err)
	}
	want, err := e.db.Idempotency().Get(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	got, err := records.Get(ctx, id)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	list, err := records.List(ctx, idempotency.Filter{Operation: "charge"}, idempotency.ID{}, 10)
	if err != nil || len(list) != 1 || list[0].ID != id {
		t.Errorf("%+v, %v", list, err)
	}
	if err := records.Clear(ctx, want.Claim()); err != nil {
		t.Error(err)
	}
	if _, err := records.Get(ctx, id); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("cleared: %v", err)
	}
	if err := records.Resolve(ctx, want.Claim(), settled); !errors.Is(err, idempotency.ErrFenced) {
		t.Errorf("resolved what is gone: %v", err)
	}
}

func TestS7AnAuditLogIsTheSameThroughAServer(t *testing.T) {
	e := start(t, nil, policystore.ScopeRead)
	for i := range 5_100 { // more than fits in an answer
		if err := e.log.OperatorAction(t.Context(), audit.Operation{Action: "test", Actor: "a", Attributes: map[string]string{"n": strconv.Itoa(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := audit.Verify(t.Context(), e.Audit(), audit.VerifyOptions{})
	if err != nil || !r.Intact() || r.Events < 5_100 {
		t.Errorf("%d events, %v, %v", r.Events, r.Faults, err)
	}
	n := 0
	err = e.Audit().Find(t.Context(), audit.Query{Type: audit.OperatorAction}, func(_ string, line []byte) error {
		if n++; !bytes.Contains(line, []byte(`"n":"`+strconv.Itoa(5_100-n)+`"`)) {
			t.Fatalf("line %d from the end: %s", n, line)
		}
		return nil
	})
	if err != nil || n != 5_100 {
		t.Errorf("found %d, %v", n, err)
	}
	heads, err := e.Audit().Heads(t.Context())
	if err != nil || len(heads) != 1 || heads[0].Seq != uint64(r.Events) {
		t.Errorf("%+v, %v", heads, err)
	}
}

// TestS6AnEnqueueWhoseAnswerIsLostIsMadeOnce: the client sends it again with the same key.
func TestS6AnEnqueueWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	var requests atomic.Int64
	e := start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/jobs" && requests.Add(1) == 1 {
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}, policystore.ScopeOperate)
	receipt, err := job.NewClient(e.Jobs()).Enqueue(t.Context(), job.Request{Type: "a"})
	if err != nil || requests.Load() != 2 {
		t.Fatalf("%v after %d requests", err, requests.Load())
	}
	list, err := e.db.Jobs().List(t.Context(), job.Filter{}, "", 10)
	if err != nil || len(list) != 1 || list[0].ID != receipt.ID {
		t.Errorf("stored: %+v, %v", list, err)
	}
}

func TestS6ARefusalIsAProblemWithARemedy(t *testing.T) {
	e := start(t, nil, policystore.ScopeRead)
	_, err := job.NewClient(e.Jobs()).Enqueue(t.Context(), job.Request{Type: "a"})
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || p.Status != http.StatusForbidden || p.Type != api.ProblemScope || p.Remedy == "" {
		t.Errorf("%v", err)
	}
	const secret = "tenet_s3cret"
	c, err := client.New(client.Options{URL: e.url, Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Jobs().Stats(t.Context()); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
	if p, ok := errors.AsType[*client.Problem](err); !ok || p.Status != http.StatusUnauthorized {
		t.Errorf("%v", err)
	}
	if _, err := client.New(client.Options{URL: "http://u:s3cret@host"}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
}

func TestAServerThatIsAwayIsNamed(t *testing.T) {
	c, err := client.New(client.Options{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Jobs().Stats(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no connection to http://127.0.0.1:1; check the URL, and that the server runs") {
		t.Errorf("%v", err)
	}
}

// TestAnswersOfOthersAreNoProblems: a proxy's page is not shown.
func TestAnswersOfOthersAreNoProblems(t *testing.T) {
	e := start(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>proxy</html>", http.StatusNotFound) })
	})
	_, err := e.Jobs().Stats(t.Context())
	if p, ok := errors.AsType[*client.Problem](err); !ok || p.Status != http.StatusNotFound || errors.Is(err, job.ErrNotFound) || strings.Contains(err.Error(), "html") {
		t.Errorf("%v", err)
	}
}
