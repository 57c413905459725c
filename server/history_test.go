package server

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/history"
)

// TestU2TheHistoryHasRatesLatenciesAndAmplification completes a job a second, each at its second attempt and three seconds
// after it was due.
func TestU2TheHistoryHasRatesLatenciesAndAmplification(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		defer e.works()()
		ctx := t.Context()
		read := func(path string) (h api.StatsHistory) {
			e.get(path).into(t, &h)
			return h
		}
		read("/v1/stats/history") // from now on there are samples every second
		store := e.db.Jobs()
		settle := func(s job.Settlement) {
			s.Reason = policy.ReasonSuccess
			claimed, err := store.Claim(ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "mail", Free: 1}}, Lease: job.DefaultLease})
			if err != nil || len(claimed) != 1 {
				t.Fatal(claimed, err)
			}
			s.Ref = claimed[0].Ref()
			if errs := store.Settle(ctx, []job.Settlement{s}); errs != nil {
				t.Fatal(errs)
			}
		}
		time.Sleep(100 * time.Millisecond)
		for range 60 {
			due := time.Now().Add(-3 * time.Second)
			if _, err := job.NewClient(store).Enqueue(ctx, job.Request{Type: "t", Queue: "mail", RunAt: due}); err != nil {
				t.Fatal(err)
			}
			settle(job.Settlement{Kind: job.KindRetry, Error: "no"})
			time.Sleep(500 * time.Millisecond)
			settle(job.Settlement{Kind: job.KindComplete})
			time.Sleep(500 * time.Millisecond)
		}
		h := read("/v1/stats/history?step=10s&queues=true")
		last := len(h.Times) - 1
		if last < 4 {
			t.Fatalf("%d points", last+1)
		}
		for name, s := range map[string]api.Series{"total": h.Total, "mail": h.Queues["mail"]} {
			got := []float64{s.Enqueue[last], s.Complete[last], s.Attempt[last], s.Retry[last], s.Amplification[last], s.Die[last]}
			for i, want := range []float64{1, 1, 2, 1, 2, 0} {
				if math.Abs(got[i]-want) > 0.11 {
					t.Errorf("%s: %v, %d is not %v", name, got, i, want)
				}
			}
			if s.P50[last] < 0.45 || s.P50[last] > 0.55 { // its last attempt was due at once after the first
				t.Errorf("%s: p50 %v", name, s.P50[last])
			}
			if s.Completed[last] < 55 {
				t.Errorf("%s: completed %v", name, s.Completed)
			}
		}
		if h := read("/v1/stats/history?step=1s&points=5&queue=other"); len(h.Times) != 5 || h.Total.Complete[4] != 0 {
			t.Errorf("another queue: %+v", h)
		}
		bound := e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"other"}})
		h = api.StatsHistory{}
		r := e.do(call{method: http.MethodGet, path: "/v1/stats/history?queues=true", secret: bound})
		r.into(t, &h)
		if r.status != 200 || len(h.Queues) != 0 || h.Total.Complete[len(h.Times)-1] != 0 {
			t.Errorf("a token that is bound to another queue: %d %s", r.status, r.body)
		}
		if r := e.do(call{method: http.MethodGet, path: "/v1/stats/history?queue=mail", secret: bound}); r.status != 403 {
			t.Errorf("a queue that the token is not bound to: %d", r.status)
		}
	})
}

// TestU2LatenciesGoOnAfterTheClockWasSetBack: the newest finished job seems to be an hour in the future.
func TestU2LatenciesGoOnAfterTheClockWasSetBack(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		store, newest := e.db.Jobs(), time.Now().Add(time.Hour)
		p := &sampler{looked: newest}
		for range 2 {
			if _, err := job.NewClient(store).Enqueue(t.Context(), job.Request{Type: "t"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			claimed, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: job.DefaultQueue, Free: 1}}, Lease: job.DefaultLease})
			if err != nil || len(claimed) != 1 {
				t.Fatal(claimed, err)
			}
			if errs := store.Settle(t.Context(), []job.Settlement{{Ref: claimed[0].Ref(), Kind: job.KindComplete, Reason: policy.ReasonSuccess}}); errs != nil {
				t.Fatal(errs)
			}
			p.sample(t.Context(), e.server, store, &newest)
		}
		if points := p.history.Points(history.Second, 1); len(points) != 1 || points[0].Total.P50 == 0 {
			t.Errorf("%+v", points)
		}
	})
}

// TestU2TheHistoryOfAQueueHasNoPointsThatLackIt: points keep the busiest queues, and zeros would say that another has no jobs.
func TestU2TheHistoryOfAQueueHasNoPointsThatLackIt(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		defer e.works()()
		ctx := t.Context()
		client := job.NewClient(e.db.Jobs())
		ready := func(queue string) []int {
			var h api.StatsHistory
			e.get("/v1/stats/history?step=1s&points=2&queue="+queue).into(t, &h)
			return h.Total.Ready
		}
		readyOf := func(queues ...string) []int { // as a token sees them that is bound to the queues
			var h api.StatsHistory
			bound := e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: queues})
			e.do(call{method: http.MethodGet, path: "/v1/stats/history?step=1s&points=2", secret: bound}).into(t, &h)
			return h.Total.Ready
		}
		enqueue := func(queue string) {
			if _, err := client.Enqueue(ctx, job.Request{Type: "t", Queue: queue}); err != nil {
				t.Fatal(err)
			}
		}
		enqueue("rare")
		ready("rare")
		time.Sleep(5 * time.Second)
		if got := ready("rare"); !slices.Equal(got, []int{1, 1}) {
			t.Error(got)
		}
		for i := range history.MaxQueues {
			for range 2 {
				enqueue(fmt.Sprint("busy", i))
			}
		}
		time.Sleep(5 * time.Second)
		if rare, busy := ready("rare"), ready("busy7"); len(rare) != 0 || !slices.Equal(busy, []int{2, 2}) {
			t.Errorf("a queue that is not among the busiest: %v, one of those: %v", rare, busy)
		}
		if rare, busy, all := readyOf("rare"), readyOf("rare", "busy1*"), ready(""); len(rare) != 0 || !slices.Equal(busy, []int{22, 22}) || !slices.Equal(all, []int{101, 101}) {
			t.Errorf("a token for a queue that is not among the busiest: %v, for others too: %v, for all: %v", rare, busy, all)
		}
	})
}

// TestU2ServersSampleRarelyWhileNobodyAsks counts looks at the store.
func TestU2ServersSampleRarelyWhileNobodyAsks(t *testing.T) {
	var asked atomic.Int64
	inBubble(t, func(o *Options) { o.Jobs = countedJobs{o.Jobs, &asked} }, func(t *testing.T, e *env) {
		defer e.works()()
		synctest.Wait()
		in := func(d time.Duration) int64 {
			before := asked.Load()
			time.Sleep(d)
			return asked.Load() - before
		}
		if n := in(10 * time.Minute); n < 59 || n > 61 {
			t.Errorf("%d looks in 10 minutes while nobody asks", n)
		}
		e.get("/v1/stats/history")
		if n := in(time.Minute); n < 59 || n > 62 {
			t.Errorf("%d looks in the minute after a question", n)
		}
		if n := in(11 * time.Minute); n > 61+61 {
			t.Errorf("%d looks in the 11 minutes after it", n)
		}
	})
}
