package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// TestU2AJobExplainsItself runs a job with a worker that records its decisions, and one whose worker does not.
func TestU2AJobExplainsItself(t *testing.T) {
	e := newEnv(t, nil)
	e.do(call{method: http.MethodPost, path: "/v1/documents/pay/revisions", body: api.Publish{Body: "version: 1\ndefaults: {jobs: {retry: {max_attempts: 1}}}\n"}, header: map[string]string{"If-Match": "*"}})
	run := func(options ...job.WorkerOption) string {
		id := e.enqueue(api.NewJobRequest{Type: fmt.Sprint("mail", len(options)), Queue: "q"})[0]
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		worker := job.NewWorker(e.db.Jobs(), append(options, job.WithQueues(map[string]int{"q": 1}))...)
		attempts := 0
		worker.HandleRaw(fmt.Sprint("mail", len(options)), func(context.Context, job.Job[[]byte]) error {
			if attempts++; attempts < 3 {
				return errors.New("not yet")
			}
			close(ended)
			return nil
		})
		done := make(chan error, 1)
		go func() { done <- worker.Run(ctx) }()
		<-ended
		for {
			if r, _, err := e.db.Jobs().Get(ctx, id); err != nil || r.State == job.Completed {
				break
			}
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-done
		return id
	}
	id := run(job.WithObserver(e.options.Log))
	var s api.Story
	e.get("/v1/jobs/"+id+"/explain?document=pay").into(t, &s)
	var decisions []api.StoryStep
	for _, step := range s.Steps {
		if step.Decision != "" {
			decisions = append(decisions, step)
		}
	}
	if s.Source != "log" || s.Result != "done" || s.Attempts != 3 || len(decisions) != 3 {
		t.Fatalf("%+v", s)
	}
	first := decisions[0]
	if first.Decision != "retry" || first.Range == nil || first.Wait < first.Range.Lowest || first.Wait > first.Range.Highest || len(first.Fields) == 0 ||
		first.Facts == nil || !first.Facts.Failed || first.Rule == "" || first.Revision == "" {
		t.Errorf("%+v", first)
	}
	if n := first.Now; n == nil || n.Decision != "stop" || n.Reason != "attempts_exhausted" || n.Same {
		t.Errorf("under the document: %+v", n)
	}
	e.get("/v1/jobs/"+id+"/explain").into(t, &s)
	silent := run()
	s = api.Story{}
	e.get("/v1/jobs/"+silent+"/explain").into(t, &s)
	if s.Source != "history" || s.Result != "done" || s.Attempts != 3 || len(s.Steps) != 3 || s.Steps[0].Decision != "retry" || s.Steps[0].Error != "not yet" {
		t.Errorf("from the history: %+v", s)
	}
	bound := e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"other"}})
	for _, path := range []string{id, "none"} {
		if r := e.do(call{method: http.MethodGet, path: "/v1/jobs/" + path + "/explain", secret: bound}); r.status != 404 {
			t.Errorf("%s to a token that is bound to another queue: %d", path, r.status)
		}
	}
	for _, path := range []string{"none/explain", id + "/explain?document=none"} {
		if r := e.get("/v1/jobs/" + path); r.status != 404 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
}
