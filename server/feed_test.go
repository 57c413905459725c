package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// countedJobs counts how often a store is asked for its counters.
type countedJobs struct {
	JobStore
	asked *atomic.Int64
}

func (c countedJobs) Stats(ctx context.Context) (map[string]job.QueueStats, error) {
	c.asked.Add(1)
	return c.JobStore.Stats(ctx)
}

// countedAudit counts how often a log is read.
type countedAudit struct {
	AuditStore
	asked *atomic.Int64
}

func (c countedAudit) Read(ctx context.Context, after string, f func(string, []byte) error) error {
	c.asked.Add(1)
	return c.AuditStore.Read(ctx, after, f)
}

// Tail implements audit.Tailer.
func (c countedAudit) Tail(ctx context.Context) (string, error) { return audit.Tail(ctx, c.AuditStore) }

// TestU1ManyStreamsLookAtTheStoresAsOftenAsOne opens 200 streams and watches.
func TestU1ManyStreamsLookAtTheStoresAsOftenAsOne(t *testing.T) {
	var jobs, log atomic.Int64
	inBubble(t, func(o *Options) {
		o.Jobs, o.Audit = countedJobs{o.Jobs, &jobs}, countedAudit{o.Audit, &log}
	}, func(t *testing.T, e *env) {
		const streams, seconds = 200, 60
		ctx, cancel := context.WithCancel(t.Context())
		for range streams {
			go func() {
				for range e.events(ctx, "?topics=stats,transitions,pulse", "") {
				}
			}()
			go func() {
				for range e.server.Watch(ctx) {
				}
			}()
		}
		synctest.Wait()
		jobs.Store(0)
		log.Store(0)
		time.Sleep(seconds * time.Second)
		if n := jobs.Load(); n < seconds-1 || n > seconds+1 {
			t.Errorf("the counters were read %d times in %d seconds", n, seconds)
		}
		if n := log.Load(); n < seconds-1 || n > seconds+1 {
			t.Errorf("the log was read %d times in %d seconds", n, seconds)
		}
		cancel()
		synctest.Wait()
		jobs.Store(0)
		time.Sleep(seconds * time.Second)
		if n := jobs.Load(); n != 0 {
			t.Errorf("the counters were read %d times while nobody listened", n)
		}
	})
}

func TestU1ThePulseSaysWhatHasChanged(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		watched := e.server.Watch(ctx)
		events := e.events(ctx, "?topics=pulse", "")
		// changed returns the pulse after a change, and whether it came within two seconds by both ways.
		changed := func(what string) (p api.Pulse) {
			t.Helper()
			limit := time.After(2 * time.Second)
			select {
			case p = <-watched:
			case <-limit:
				t.Fatalf("%s: no pulse", what)
			}
			var sent api.Pulse
			if err := json.Unmarshal([]byte(next(t, events, "pulse")[2]), &sent); err != nil || sent != p {
				t.Errorf("%s: watched %+v, streamed %+v %v", what, p, sent, err)
			}
			return p
		}
		before := changed("at first")
		quiet := time.After(time.Minute)
		select {
		case p := <-watched:
			t.Fatalf("nothing has changed: %+v, before %+v", p, before)
		case <-quiet:
		}
		if _, err := job.NewClient(e.db.Jobs()).Enqueue(ctx, job.Request{Type: "mail"}); err != nil {
			t.Fatal(err)
		}
		after := changed("a job")
		if after.Jobs != before.Jobs+1 || after.Audit != before.Audit || after.Documents != before.Documents {
			t.Errorf("after a job: %+v, before %+v", after, before)
		}
		before = after
		if err := e.options.Log.OperatorAction(ctx, audit.Operation{Action: "test", Actor: "x"}); err != nil {
			t.Fatal(err)
		}
		after = changed("an event")
		if after.Audit != before.Audit+1 || after.Jobs != before.Jobs {
			t.Errorf("after an event: %+v, before %+v", after, before)
		}
		before = after
		if _, err := e.options.Policies.Save(ctx, policystore.Document{Name: "pay"}); err != nil {
			t.Fatal(err)
		}
		if after = changed("a document"); after.Documents != before.Documents+1 {
			t.Errorf("after a document: %+v, before %+v", after, before)
		}
		e.server.Drain()
		if _, open := <-watched; open {
			t.Error("a watch goes on after the server drains")
		}
	})
}

// TestS7AStreamThatIsBehindMissesNoTransition continues streams from all places of a log that is longer than what the feed
// reads at once.
func TestS7AStreamThatIsBehindMissesNoTransition(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		const all = 2*eventsAtOnce + 10
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range all {
			o := audit.Event{Type: audit.JobTransition, Surface: "job", WorkID: fmt.Sprint("job-", i), From: "ready", To: "running"}
			if err := e.options.Log.Record(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		for _, first := range []int{0, 1, eventsAtOnce, all - 1} {
			stream, end := context.WithCancel(ctx)
			events := e.events(stream, "?topics=transitions", fmt.Sprint(first+1)) // the first event opens the chain
			for i := first; i < all; i++ {
				if event := next(t, events, "transition"); !strings.Contains(event[2], fmt.Sprintf(`"job-%d"`, i)) {
					t.Fatalf("after %d: %q instead of job-%d", first, event, i)
				}
			}
			end()
			for range events {
			}
		}
	})
}
