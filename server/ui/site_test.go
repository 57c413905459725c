package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/ui"
)

// site is a server with its UI on a store of its own.
type site struct {
	t      testing.TB
	db     *sqlite.DB
	log    *audit.Log
	server *server.Server
	http   *httptest.Server
	secret string // of the caller's token; empty for none
}

// newSite starts a site. change may change its options first.
func newSite(t testing.TB, change func(*server.Options)) *site {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	db, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "site.db"), sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(ctx, db.Audit(), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{
		Stores: server.Stores{Jobs: db.Jobs(), Records: db.Idempotency(), Audit: db.Audit(), Policies: db.Policies()},
		Log:    log, Logger: slog.New(slog.DiscardHandler),
		Periodic: []job.Periodic{{Name: "nightly/report", Cron: "0 3 * * *", Missed: job.MissedOnce, Request: job.Request{Type: "report:build", Queue: "documents"}}},
	}
	if change != nil {
		change(&o)
	}
	s := &site{t: t, db: db, log: log}
	if s.server, err = server.New(ctx, o); err != nil {
		t.Fatal(err)
	}
	u, err := ui.New(s.server, ui.Options{Development: true, Store: "sqlite:/jobs.db", Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.server.Mount("/ui/", u.Handler())
	s.http = httptest.NewServer(s.server.Handler())
	worked := make(chan struct{})
	go func() { defer close(worked); s.server.Work(ctx) }()
	t.Cleanup(func() {
		s.server.Drain()
		s.http.Close()
		stop()
		<-worked
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := log.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// enqueue stores jobs.
func (s *site) enqueue(requests ...job.Request) []job.Receipt {
	s.t.Helper()
	receipts, err := job.NewClient(s.db.Jobs()).EnqueueMany(context.Background(), requests)
	if err != nil {
		s.t.Fatal(err)
	}
	return receipts
}

// get returns the page at a path under /ui/.
func (s *site) get(path string) string {
	s.t.Helper()
	return s.ask(http.MethodGet, path, nil, http.StatusOK)
}

// post sends a form to a path under /ui/, as a browser without scripts does, and returns the page that it ends on.
func (s *site) post(path string, form url.Values) string {
	s.t.Helper()
	return s.ask(http.MethodPost, path, form, http.StatusOK)
}

// refused returns the page with which a path is refused.
func (s *site) refused(path string, status int) string {
	s.t.Helper()
	return s.ask(http.MethodGet, path, nil, status)
}

// refusedPost returns the page with which a form is refused.
func (s *site) refusedPost(path string, form url.Values, status int) string {
	s.t.Helper()
	return s.ask(http.MethodPost, path, form, status)
}

// ask makes a request that must be answered with a status.
func (s *site) ask(method, path string, form url.Values, want int) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, s.http.URL+"/ui/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := s.browser().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != want {
		s.t.Fatalf("%s %s: %s, %v\n%s", method, path, answer.Status, err, raw)
	}
	return string(raw)
}

// seed runs jobs of every fate through a worker that records its decisions: completed, dead of two causes, waiting for a
// retry, scheduled, running and ready.
func (s *site) seed() {
	s.t.Helper()
	var requests []job.Request
	for i := range 40 {
		raw, _ := json.Marshal(map[string]any{"order": map[string]any{"id": i, "lines": []string{"pen", "ink"}}, "to": fmt.Sprintf("person%d@example.com", i)})
		requests = append(requests, job.Request{
			Type: []string{"email:send", "invoice:print"}[i%2], Queue: []string{"mail", "documents"}[i%2], Payload: raw, Meta: map[string]string{"tenant": "acme"},
		})
	}
	requests = append(requests, job.Request{Type: "report:build", Queue: "documents", Payload: []byte(`{}`), RunAt: time.Now().Add(time.Hour)})
	s.enqueue(requests...)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	w := job.NewWorker(s.db.Jobs(), job.WithName("host-1"), job.WithQueues(map[string]int{"mail": 5, "documents": 5}), job.WithPoll(10*time.Millisecond),
		job.WithExecutorOptions(retry.ExecutorOptions{Observer: s.log, Journal: s.log}),
		job.WithRetryPolicy(job.NewExponentialBackoff(policy.Retry{InitialBackoff: 20 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, MaxAttempts: 3})),
		job.WithLogger(slog.New(slog.DiscardHandler)))
	handle := func(_ context.Context, j job.Job[map[string]any]) error {
		order, _ := j.Payload["order"].(map[string]any)
		n, _ := order["id"].(float64)
		switch i := int(n); {
		case i%8 < 4:
			return nil
		case i%8 < 6:
			return job.Unrecoverable(fmt.Errorf("smtp: 550 mailbox %d is unavailable", i))
		case i%8 == 6:
			return errors.New("smtp: 421 try again later")
		}
		return job.Snooze(time.Hour)
	}
	job.Handle(w, "email:send", handle)
	job.Handle(w, "invoice:print", handle)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for {
		stats, err := s.db.Jobs().Stats(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		if stats["mail"].Dead+stats["documents"].Dead == 15 {
			break
		}
		select {
		case err := <-ended:
			s.t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		s.t.Fatal(err)
	}
	s.enqueue(job.Request{Type: "email:send", Queue: "mail", Payload: []byte(`{}`)})
}

func TestU1PagesCanBeReadWithoutScripts(t *testing.T) {
	s := newSite(t, nil)
	if page := s.get(""); !strings.Contains(page, "No jobs yet") {
		t.Errorf("an empty store: %s", page)
	}
	s.reads("pipelines", "No pipelines yet", "tenet consume --policy server:URL/NAME")
	s.reads("mechanisms", "Nothing has been refused", "tenet worker --policy server:URL/NAME")
	s.seed()
	for path, want := range map[string]string{
		"": "dead", "queues": "documents", "jobs": "email:send", "jobs?filter=" + url.QueryEscape("state:dead"): "mailbox", "components": "Components",
	} {
		if page := s.get(path); !strings.Contains(page, want) {
			t.Errorf("%s: no %q in\n%s", path, want, page)
		}
	}
}

var deadJobs = job.Filter{States: []job.State{job.Dead}}
