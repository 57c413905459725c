package server

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// stuck is a store whose enqueues end with their context only.
type stuck struct {
	JobStore
	running *atomic.Bool
}

func (s stuck) Enqueue(ctx context.Context, _ []job.Insert) ([]job.Receipt, error) {
	s.running.Store(true)
	defer s.running.Store(false)
	return nil, wait.For(ctx, time.Hour)
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
