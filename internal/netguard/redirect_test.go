package netguard

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener for connections in this process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// mute is a connection that takes everything and brings nothing once it is dead.
type mute struct {
	net.Conn
	dead *atomic.Bool
}

func (m mute) Write(b []byte) (int, error) {
	if m.dead.Load() {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

// TestS4ADeadConnectionIsGivenUp: with HTTP/2, all requests to a server share a connection, and their ends do not end it.
func TestS4ADeadConnectionIsGivenUp(t *testing.T) {
	for name, transport := range map[string]*http.Transport{
		"without redirects": WithoutRedirects(nil).Transport.(*http.Transport), "guarded": Transport(true).(once).Transport,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { giveUpDead(t, transport.Clone()) })
		})
	}
}

func giveUpDead(t *testing.T, transport *http.Transport) {
	t.Helper()
	var h2 http.Protocols
	h2.SetUnencryptedHTTP2(true)
	connections := make(pipes)
	server := &http.Server{Protocols: &h2, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})}
	go func() { _ = server.Serve(connections) }()
	defer server.Close()
	defer close(connections)
	var dead []*atomic.Bool
	transport.Protocols = &h2
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		dead = append(dead, &atomic.Bool{})
		connections <- far
		return mute{near, dead[len(dead)-1]}, nil
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	get := func() *http.Response {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/", http.NoBody)
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	first := get()
	defer first.Body.Close()
	dead[0].Store(true)
	begun := time.Now()
	if _, err := io.ReadAll(first.Body); err == nil || time.Since(begun) > time.Minute {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	second := get()
	_ = second.Body.Close()
	if len(dead) != 2 {
		t.Errorf("%d connections", len(dead))
	}
}

// TestS4TheChecksOfAProgramStay, and its transport is used although another one was before.
func TestS4TheChecksOfAProgramStay(t *testing.T) {
	Checked()
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = &http.Transport{MaxConnsPerHost: 7, HTTP2: &http.HTTP2Config{SendPingTimeout: time.Second, MaxReadFrameSize: 1 << 20}}
	got := Checked().(*http.Transport)
	if got.MaxConnsPerHost != 7 || got.HTTP2.SendPingTimeout != time.Second || got.HTTP2.MaxReadFrameSize != 1<<20 {
		t.Errorf("%d connections, HTTP/2 %+v", got.MaxConnsPerHost, got.HTTP2)
	}
	if Checked() != got {
		t.Error("every client would have connections of its own")
	}
}
