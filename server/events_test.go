package server

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// events opens a stream and returns its events, each as its type, its ID and its data.
func (e *env) events(ctx context.Context, query, after string) <-chan [3]string {
	e.t.Helper()
	return e.stream(ctx, "/v1/events"+query, after)
}

// stream is events at a path.
func (e *env) stream(ctx context.Context, path, after string) <-chan [3]string {
	e.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, http.NoBody)
	if err != nil {
		e.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+e.secret)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	answer, err := e.client.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		e.t.Fatal(answer.Status, answer.Header)
	}
	found := make(chan [3]string)
	go func() {
		defer close(found)
		defer answer.Body.Close()
		var event [3]string
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case name == "event":
				event[0] = value
			case name == "id":
				event[1] = value
			case name == "data":
				event[2] = value
			case lines.Text() == "" && event != [3]string{}:
				select {
				case found <- event:
				case <-ctx.Done():
					return
				}
				event = [3]string{}
			}
		}
	}()
	return found
}

// next returns the next event of a type.
func next(t *testing.T, events <-chan [3]string, kind string) [3]string {
	t.Helper()
	for {
		select {
		case event, open := <-events:
			if !open {
				t.Fatal("the stream ended")
			}
			if event[0] == kind {
				return event
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("no event %q", kind)
		}
	}
}

func TestS7CountersAreStreamedWhenTheyChange(t *testing.T) {
	e := newEnv(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := e.events(ctx, "?topics=stats", "")
	if first := next(t, events, "stats"); first[2] != `{"queues":{}}` {
		t.Errorf("at first: %s", first[2])
	}
	e.enqueue(api.NewJobRequest{Type: "mail", Queue: "out"})
	if second := next(t, events, "stats"); !strings.Contains(second[2], `"out"`) || !strings.Contains(second[2], `"ready":1`) {
		t.Errorf("after a job was stored: %s", second[2])
	}
}

func TestS7TransitionsAreStreamedAndGoOnAfterAnEvent(t *testing.T) {
	e := newEnv(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := e.events(ctx, "?topics=transitions", "")
	e.enqueue(api.NewJobRequest{Type: "mail"})
	worker := job.NewWorker(e.db.Jobs(), job.WithObserver(e.options.Log))
	worker.HandleRaw("mail", func(context.Context, job.Job[[]byte]) error { return nil })
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	first := next(t, events, "transition")
	if !strings.Contains(first[2], `"job_transition"`) || first[1] == "" {
		t.Fatalf("%q", first)
	}
	e.enqueue(api.NewJobRequest{Type: "mail", Queue: job.DefaultQueue})
	second := next(t, events, "transition")
	if again := next(t, e.events(ctx, "?topics=transitions", first[1]), "transition"); again != second {
		t.Errorf("after %q the stream goes on with %q, want %q", first, again, second)
	}
	cancel()
	<-ended
}

// TestS7AStreamAfterAnEventOfALostLogBeginsAtTheEnd: a log that was restored from a backup ends before events that were sent.
func TestS7AStreamAfterAnEventOfALostLogBeginsAtTheEnd(t *testing.T) {
	e := newEnv(t, nil)
	event := audit.Event{Type: audit.JobTransition, Surface: "job", WorkID: "before", From: "ready", To: "running"}
	if err := e.options.Log.Record(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := e.events(ctx, "?topics=transitions", "1000000")
	event.WorkID = "since"
	if err := e.options.Log.Record(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if first := next(t, events, "transition"); !strings.Contains(first[2], `"since"`) {
		t.Errorf("%q", first)
	}
}

// shifted is an audit log in which by events come first.
type shifted struct {
	AuditStore
	by *atomic.Int64
}

// Tail implements audit.Tailer.
func (s shifted) Tail(ctx context.Context) (string, error) {
	tail, err := audit.Tail(ctx, s.AuditStore)
	return cursorOf(positionOf(tail) + s.by.Load()), err
}

func (s shifted) Read(ctx context.Context, after string, visit func(string, []byte) error) error {
	by := s.by.Load()
	return s.AuditStore.Read(ctx, cursorOf(max(positionOf(after)-by, 0)), func(cursor string, line []byte) error {
		return visit(cursorOf(positionOf(cursor)+by), line)
	})
}

// TestS7AnOpenStreamGoesOnAfterTheLogWasRestored from a backup, in which the events have lower numbers.
func TestS7AnOpenStreamGoesOnAfterTheLogWasRestored(t *testing.T) {
	var by atomic.Int64
	by.Store(100)
	inBubble(t, func(o *Options) { o.Audit = shifted{o.Audit, &by} }, func(t *testing.T, e *env) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events := e.events(ctx, "?topics=transitions", "")
		for _, work := range []string{"before", "since"} {
			time.Sleep(2 * eventEvery)
			event := audit.Event{Type: audit.JobTransition, Surface: "job", WorkID: work, From: "ready", To: "running"}
			if err := e.options.Log.Record(t.Context(), event); err != nil {
				t.Fatal(err)
			}
			if got := next(t, events, "transition"); !strings.Contains(got[2], work) {
				t.Errorf("%q instead of %s", got, work)
			}
			by.Store(0)
		}
		cancel()
		for range events { // until the end
		}
	})
}

// TestS7AStreamOfARestoredLogMissesNothing: it begins before the server has noticed on another stream that the log was restored.
func TestS7AStreamOfARestoredLogMissesNothing(t *testing.T) {
	var by atomic.Int64
	by.Store(100)
	inBubble(t, func(o *Options) { o.Audit = shifted{o.Audit, &by} }, func(t *testing.T, e *env) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		event := audit.Event{Type: audit.JobTransition, Surface: "job", WorkID: "before", From: "ready", To: "running"}
		if err := e.options.Log.Record(t.Context(), event); err != nil {
			t.Fatal(err)
		}
		older := e.events(ctx, "?topics=transitions", "")
		time.Sleep(2*eventEvery + eventEvery/2)
		by.Store(0)
		events := e.events(ctx, "?topics=transitions", "")
		event.WorkID = "since"
		if err := e.options.Log.Record(t.Context(), event); err != nil {
			t.Fatal(err)
		}
		if got := next(t, events, "transition"); !strings.Contains(got[2], "since") {
			t.Errorf("%q", got)
		}
		cancel()
		for range older { // until the end
		}
		for range events {
		}
	})
}

// grown is an audit log whose first by events are not transitions.
type grown struct{ shifted }

func (g grown) Read(ctx context.Context, after string, visit func(string, []byte) error) error {
	for at := positionOf(after) + 1; at <= g.by.Load(); at++ {
		if err := visit(cursorOf(at), []byte("{}")); err != nil {
			return err
		}
	}
	return g.shifted.Read(ctx, after, visit)
}

// TestS7AStreamDoesNotWaitForWhatWasRecordedWhileNobodyListened: it begins at the end of the log.
func TestS7AStreamDoesNotWaitForWhatWasRecordedWhileNobodyListened(t *testing.T) {
	var by atomic.Int64
	inBubble(t, func(o *Options) { o.Audit = grown{shifted{o.Audit, &by}} }, func(t *testing.T, e *env) {
		for _, work := range []string{"before", "since"} {
			ctx, cancel := context.WithCancel(t.Context())
			events := e.events(ctx, "?topics=transitions", "")
			time.Sleep(2 * eventEvery)
			event := audit.Event{Type: audit.JobTransition, Surface: "job", WorkID: work, From: "ready", To: "running"}
			if err := e.options.Log.Record(t.Context(), event); err != nil {
				t.Fatal(err)
			}
			if got := next(t, events, "transition"); !strings.Contains(got[2], work) {
				t.Errorf("%q instead of %s", got, work)
			}
			cancel()
			for range events { // until the end
			}
			time.Sleep(2 * eventEvery)
			by.Store(1_000_000)
		}
	})
}

// TestS7ASilentStreamStaysOpen: with HTTP/2, a write deadline ends a stream on which nothing is written.
func TestS7ASilentStreamStaysOpen(t *testing.T) {
	for _, path := range []string{"/v1/events?topics=pulse", "/v1/jobs/events"} {
		inBubble(t, nil, func(t *testing.T, e *env) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			events := e.stream(ctx, path, "")
			for end := time.After(time.Minute); end != nil; {
				select {
				case _, open := <-events:
					if !open {
						t.Fatalf("%s has ended", path)
					}
				case <-end:
					end = nil
				}
			}
			cancel()
			for range events { // until the end
			}
		})
	}
}

func TestS7NginxDoesNotHoldAStreamBack(t *testing.T) {
	e := newEnv(t, nil)
	for _, path := range []string{"/v1/events", "/v1/jobs/events", "/v1/documents/mail/live"} {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+e.secret)
		answer, err := e.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("%s: %v", path, answer.Header)
		}
		cancel()
		_ = answer.Body.Close()
	}
}

// longLog is an audit log of events that are no transitions, which takes a day to read.
type longLog struct{ AuditStore }

func (longLog) Tail(context.Context) (string, error) { return "86400", nil }

func (longLog) Read(ctx context.Context, after string, visit func(string, []byte) error) error {
	for at := positionOf(after) + 1; at <= 86400; at++ {
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
		if err := visit(cursorOf(at), []byte("{}")); err != nil {
			return err
		}
	}
	return nil
}

// TestS9AStreamThatCatchesUpEndsWhenTheServerDrains: until then a proxy sees that it is alive.
func TestS9AStreamThatCatchesUpEndsWhenTheServerDrains(t *testing.T) {
	inBubble(t, func(o *Options) { o.Audit = longLog{o.Audit} }, func(t *testing.T, e *env) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/events?topics=transitions", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+e.secret)
		r.Header.Set("Last-Event-ID", "1")
		w, ended := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(ended)
			e.server.Handler().ServeHTTP(w, r)
		}()
		time.Sleep(time.Hour)
		e.server.Drain()
		if !wait.Closed(ended, time.Hour) {
			t.Error("the stream goes on")
			<-ended
		}
		if beats := strings.Count(w.Body.String(), ": \n\n"); beats < 2 { // the last may be that of the end
			t.Errorf("%d comments were written in an hour", beats)
		}
	})
}

func TestS7AStreamEndsWhenTheServerDrains(t *testing.T) {
	e := newEnv(t, nil)
	events := e.events(t.Context(), "?topics=stats", "")
	next(t, events, "stats")
	e.server.Drain()
	for range events { // until the end
	}
}
