package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// stuck is a store whose enqueues and reads of a job end with their context only.
type stuck struct {
	JobStore
	running *atomic.Bool
}

func (s stuck) Enqueue(ctx context.Context, _ []job.Insert) ([]job.Receipt, error) {
	s.running.Store(true)
	defer s.running.Store(false)
	return nil, wait.For(ctx, time.Hour)
}

func (stuck) Get(ctx context.Context, _ string) (*job.Record, []job.Attempt, error) {
	return nil, nil, wait.For(ctx, time.Hour)
}

// pipes is a listener within the process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p <- theirs
	return ours, nil
}

// broken is a listener that fails when it is told to.
type broken struct {
	pipes
	fail chan struct{}
}

func (b broken) Accept() (net.Conn, error) {
	select {
	case c := <-b.pipes:
		return c, nil
	case <-b.fail:
		return nil, net.ErrClosed
	}
}

// TestS9NoStreamOutlivesRun: also where Run ends because its listener fails.
func TestS9NoStreamOutlivesRun(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		listener := broken{make(pipes), make(chan struct{})}
		ended := make(chan error)
		go func() { ended <- e.server.Run(t.Context(), listener) }()
		e.client = &http.Client{Transport: &http.Transport{DialContext: listener.dial}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events := e.events(ctx, "?topics=pulse", "")
		next(t, events, "pulse")
		close(listener.fail)
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		select {
		case _, open := <-events:
			if open {
				t.Error("an event after the end of Run")
			}
		case <-time.After(time.Minute):
			t.Error("the stream outlives Run")
		}
		cancel()
	})
}

// TestAServerThatStopsLetsAnotherLeadAtOnce: otherwise rollouts and redrives stand still until its lead expires.
func TestAServerThatStopsLetsAnotherLeadAtOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		stop := e.works()
		time.Sleep(10 * time.Second)
		for _, stopped := range []bool{false, true} {
			if stopped {
				stop()
				time.Sleep(time.Millisecond)
			}
			for _, task := range []string{"rollouts", "redrives"} {
				if leads, err := e.server.options.Policies.Lead(t.Context(), task, "another", time.Hour); err != nil || leads != stopped {
					t.Errorf("%s, stopped %v: another server leads: %v, %v", task, stopped, leads, err)
				}
			}
		}
	})
}

// TestACallerThatLeavesIsNotAFaultOfTheStore: closed pages of a browser would fill the log.
func TestACallerThatLeavesIsNotAFaultOfTheStore(t *testing.T) {
	inBubble(t, func(o *Options) { o.Jobs = stuck{JobStore: o.Jobs} }, func(t *testing.T, e *env) {
		const path = "/v1/jobs/01900000-0000-7000-8000-000000000000"
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+e.secret)
		if answer, err := e.client.Do(r); err == nil {
			_ = answer.Body.Close()
		}
		synctest.Wait()
		if lines := e.log.String(); strings.Contains(lines, `"level":"ERROR"`) {
			t.Errorf("logged: %s", lines)
		}
		if r := e.get(path); r.status != http.StatusServiceUnavailable || !strings.Contains(e.log.String(), `"level":"ERROR"`) {
			t.Errorf("a store that does not answer: %d, logged: %s", r.status, e.log.String())
		}
	})
}

// scarce is a listener of a process that may not open more files for some time.
type scarce struct {
	pipes
	until time.Time
}

func (s scarce) Accept() (net.Conn, error) {
	if time.Now().Before(s.until) {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return s.pipes.Accept()
}

// TestAServerThatCannotAcceptConnectionsSaysSo once a minute: nothing else shows why it does not answer.
func TestAServerThatCannotAcceptConnectionsSaysSo(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		listener := scarce{make(pipes), time.Now().Add(90 * time.Second)}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.server.Run(ctx, listener) }()
		transport := &http.Transport{DialContext: listener.dial}
		e.client = &http.Client{Transport: transport}
		if r := e.get("/v1/jobs"); r.status != http.StatusOK {
			t.Errorf("afterwards: %d %s", r.status, r.body)
		}
		transport.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if lines := e.log.String(); strings.Count(lines, `"level":"WARN"`) != 2 || !strings.Contains(lines, `"error":"accept: too many open files"`) {
			t.Errorf("logged: %s", lines)
		}
	})
}

// TestS6NoChangeOutlivesRun: whoever runs the server closes its stores then.
func TestS6NoChangeOutlivesRun(t *testing.T) {
	running := &atomic.Bool{}
	inBubble(t, func(o *Options) { o.Jobs = stuck{o.Jobs, running} }, func(t *testing.T, e *env) {
		listener := make(pipes)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.server.Run(ctx, listener) }()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/jobs", strings.NewReader(`{"jobs":[{"type":"t"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + e.secret, "Content-Type": "application/json", "Idempotency-Key": "k"} {
			r.Header.Set(name, value)
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			if answer, err := (&http.Client{Transport: &http.Transport{DialContext: listener.dial}}).Do(r); err == nil {
				_ = answer.Body.Close()
				t.Error(answer.Status)
			}
		}()
		time.Sleep(time.Second)
		began := running.Load()
		stop()
		<-ended // with an error: a request was cut off
		synctest.Wait()
		if !began || running.Load() {
			t.Errorf("the change began: %v; it runs on: %v", began, running.Load())
		}
		<-answered
	})
}
