package server

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

func TestU4JobsAreCountedBeforeTheyAreChanged(t *testing.T) {
	e := newEnv(t, nil)
	var list []api.NewJobRequest
	for i := range 900 {
		r := api.NewJobRequest{Type: "mail", Queue: []string{"out", "in"}[i%3/2], Meta: map[string]string{"tenant": []string{"a", "b"}[i%2]}}
		if i%10 == 0 {
			r.RunAt = time.Now().Add(time.Hour)
		}
		list = append(list, r)
	}
	e.enqueue(list...)
	bound := e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"o*"}})
	for _, c := range []struct {
		filter, secret string
		want           int
	}{
		{"", "", 900}, {"queue:out", "", 600}, {"queue:out,in state:scheduled", "", 90}, {"queue:i*", "", 300}, {"state:dead", "", 0}, {"queue:none", "", 0},
		{"meta.tenant:a", "", 450}, {"type:mail queue:in", "", 300}, {"type:m* state:ready", "", 810}, {"type:other", "", 0},
		{"", bound, 600}, {"type:mail", bound, 600}, {"queue:in", bound, 0},
	} {
		var got api.JobCount
		r := e.do(call{method: http.MethodPost, path: "/v1/jobs/count", body: api.JobCounting{Filter: api.JobFilter{Filter: c.filter}}, secret: c.secret})
		r.into(t, &got)
		if r.status != 200 || got.Count != c.want || !got.Exact {
			t.Errorf("%q: %d %s, want %d", c.filter, r.status, r.body, c.want)
		}
	}
}

// endless is a store whose searches always find one more.
type endless struct{ JobStore }

func (endless) Search(context.Context, job.Search) (job.Found, error) {
	time.Sleep(100 * time.Millisecond)
	return job.Found{Jobs: []*job.Record{{}}, Next: "x"}, nil
}

func (endless) Indexes(context.Context) ([]string, error) { return nil, nil }

func TestU4CountingEndsInABoundedTime(t *testing.T) {
	inBubble(t, func(o *Options) { o.Jobs = endless{o.Jobs} }, func(t *testing.T, e *env) {
		start := time.Now()
		var got api.JobCount
		e.do(call{method: http.MethodPost, path: "/v1/jobs/count", body: api.JobCounting{Filter: api.JobFilter{Filter: "type:x"}}}).into(t, &got)
		if got != (api.JobCount{Count: 20}) || time.Since(start) != countTime {
			t.Errorf("%+v after %v", got, time.Since(start))
		}
	})
}
