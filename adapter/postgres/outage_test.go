package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// outage runs load on a server that is stopped and restarted.
type outage struct {
	store     *postgres.Jobs
	enqueued  atomic.Int64
	completed atomic.Int64
	faults    atomic.Int64
	ended     chan struct{} // closed when all jobs are enqueued

	mu      sync.Mutex
	settled map[string]bool // payloads of jobs of flows, from before their first settlement was sent
	early   []string        // payloads of those that were claimed before all their needs were settled
}

// fault counts a failed operation and waits before the next try.
func (o *outage) fault() {
	o.faults.Add(1)
	<-time.After(10 * time.Millisecond)
}

// produce stores n jobs one by one. If the confirmation is lost, it stores the job again; a conflict means that it exists.
func (o *outage) produce(n int) {
	for range n {
		in := insert()
		for {
			_, err := o.store.Enqueue(context.Background(), []job.Insert{in})
			if err == nil || errors.Is(err, job.ErrConflict) {
				o.enqueued.Add(1)
				break
			}
			o.fault()
		}
	}
}

// layers are the nodes of a flow of 25 jobs; each needs all of the layer before.
var layers = [][]string{{"root"}, names("left", 12), {"join"}, names("right", 10), {"end"}}

func names(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint(prefix, i))
	}
	return list
}

// produceFlows stores n jobs in flows. A flow whose confirmation is lost is stored again under its ID, which changes nothing.
func (o *outage) produceFlows(producer, n int) {
	for i := range n / 25 {
		f := job.Flow{ID: fmt.Sprint(producer, ".", i)}
		var needs []string
		for _, layer := range layers {
			var jobs []job.FlowJob
			for _, node := range layer {
				jobs = append(jobs, job.FlowJob{Node: node, Request: job.Request{Type: "t", Queue: "q", Payload: []byte(f.ID + "/" + node)}})
			}
			needs = f.Group(needs, jobs...)
		}
		flow, err := f.Inserts()
		if err != nil {
			panic(err)
		}
		for {
			if _, err := o.store.EnqueueFlow(context.Background(), flow); err == nil {
				break
			}
			o.fault()
		}
		o.enqueued.Add(25)
	}
}

// claimed checks that the needs of a job of a flow were settled before it was claimed.
func (o *outage) claimed(payload string) {
	id, node, isFlow := strings.Cut(payload, "/")
	if !isFlow {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	at := slices.IndexFunc(layers, func(layer []string) bool { return slices.Contains(layer, node) })
	if at > 0 && slices.ContainsFunc(layers[at-1], func(need string) bool { return !o.settled[id+"/"+need] }) {
		o.early = append(o.early, payload)
	}
}

// work claims and completes until all jobs are done.
func (o *outage) work(worker string) {
	ctx := context.Background()
	for {
		select {
		case <-o.ended:
			if o.completed.Load() >= o.enqueued.Load() {
				return
			}
		default:
		}
		if _, err := o.store.Maintain(ctx, job.Maintenance{Limit: 1000}); err != nil {
			o.fault()
		}
		list, err := o.store.Claim(ctx, job.Claim{Worker: worker, Queues: []job.Slots{{Queue: "q", Free: 20}}, Lease: time.Second})
		if err != nil {
			o.fault()
			continue
		}
		if len(list) == 0 {
			<-time.After(5 * time.Millisecond)
			continue
		}
		o.settle(list)
	}
}

// settle completes jobs and retries failures. An expired lease belongs to the next worker.
func (o *outage) settle(list []*job.Record) {
	pending := make([]job.Settlement, len(list))
	for i, r := range list {
		o.claimed(string(r.Payload))
		o.mu.Lock()
		o.settled[string(r.Payload)] = true
		o.mu.Unlock()
		pending[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindComplete}
	}
	for len(pending) > 0 {
		errs := o.store.Settle(context.Background(), pending)
		var again []job.Settlement
		for i, s := range pending {
			switch {
			case errs == nil || errs[i] == nil:
				o.completed.Add(1)
			case errors.Is(errs[i], job.ErrLeaseExpired), errors.Is(errs[i], job.ErrNotRunning), errors.Is(errs[i], job.ErrFenced):
			default:
				again = append(again, s)
			}
		}
		if pending = again; len(pending) > 0 {
			o.fault()
		}
	}
}

// TestJ8AServerThatStopsUnderLoadLosesNothing: workers and producers only repeat failed operations; connections,
// notifications and leases recover by themselves.
func TestJ8AServerThatStopsUnderLoadLosesNothing(t *testing.T) { stopUnderLoad(t, load{}) }

// TestJ19AServerThatStopsUnderLoadKeepsLimits is the same with a limit, which no look at the store finds exceeded.
func TestJ19AServerThatStopsUnderLoadKeepsLimits(t *testing.T) { stopUnderLoad(t, load{limit: 12}) }

// TestJ20AServerThatStopsUnderLoadReleasesEachJobOnce is the same with flows: no job is claimed before its needs have ended, and
// each ends once.
func TestJ20AServerThatStopsUnderLoadReleasesEachJobOnce(t *testing.T) {
	stopUnderLoad(t, load{flows: true})
}

type load struct {
	limit int // 0 for none
	flows bool
}

// stopUnderLoad stops and restarts a server under load.
func stopUnderLoad(t *testing.T, load load) {
	t.Helper()
	limit := load.limit
	startOwn(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db := openAt(t, own.URL(), fmt.Sprint("outage ", schemas.Add(1)))
	if _, err := db.Migrate(ctx, postgres.Up, false); err != nil {
		t.Fatal(err)
	}
	o := &outage{store: db.Jobs(), ended: make(chan struct{}), settled: map[string]bool{}}
	if limit > 0 {
		l := policy.JobLimit{Name: "x", Concurrency: limit}
		if err := o.store.SetLimit(ctx, job.LimitSetting{LimitName: job.LimitName{Queue: "q", Name: "x"}, Limit: &l}); err != nil {
			t.Fatal(err)
		}
	}
	signals, err := o.store.Notify(ctx)
	if err != nil {
		t.Fatal(err)
	}

	var producers, workers sync.WaitGroup
	for i := range 4 {
		producers.Go(func() {
			if load.flows {
				o.produceFlows(i, 125)
			} else {
				o.produce(125)
			}
		})
	}
	for i := range 3 {
		workers.Go(func() { o.work(fmt.Sprint("w", i)) })
	}
	looks, full := 0, 0
	if limit > 0 {
		workers.Go(func() {
			for {
				select {
				case <-o.ended:
					return
				case <-time.After(10 * time.Millisecond):
				}
				stats, err := o.store.Stats(ctx)
				if err != nil {
					continue
				}
				looks++
				if n := stats["q"].Running; n > limit {
					t.Errorf("J19: %d jobs run, the limit is %d", n, limit)
				} else if n+stats["q"].Ready == limit {
					full++
				}
			}
		})
	}
	for _, progress := range []int64{100, 300} {
		for o.completed.Load() < progress {
			<-time.After(time.Millisecond)
		}
		before := o.faults.Load()
		if err := own.Stop(); err != nil {
			t.Fatal(err)
		}
		for o.faults.Load() == before {
			<-time.After(time.Millisecond)
		}
		if err := own.Run(); err != nil {
			t.Fatal(err)
		}
	}
	producers.Wait()
	close(o.ended)
	workers.Wait()

	if limit > 0 && full == 0 {
		t.Errorf("J19: the limit was not reached in %d looks: nothing was tested", looks)
	}
	if len(o.early) > 0 {
		t.Errorf("J20: claimed before their needs had ended: %q", o.early)
	}
	stats, err := o.store.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := stats["q"]
	got.Activity.Attempts, got.Activity.Retries = got.Activity.Attempts-got.Activity.Retries, 0 // a lease may be lost while the server restarts
	if want := (job.QueueStats{Completed: 500, Activity: job.Activity{Enqueued: 500, Completed: 500, Attempts: 500}}); got != want {
		t.Errorf("after %d faults: %+v, want %+v", o.faults.Load(), got, want)
	}
	// The listener is back when it receives a new announcement; until then announcements may be lost.
	for heard := false; !heard; {
		for len(signals) > 0 {
			<-signals
		}
		enqueue(t, o.store, inserts(1)...)
		select {
		case _, heard = <-signals:
		case <-time.After(100 * time.Millisecond):
		}
	}
}
