package natstest

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const startTime = 30 * time.Second

// Server is a NATS server. Its methods are for one goroutine.
type Server struct {
	*server.Server // as it runs, or ran until Stop

	t       testing.TB
	options server.Options
}

// Start starts a server for a test; edit changes its options. A test fails at once when its server does not start.
func Start(t testing.TB, edit ...func(*server.Options)) *Server {
	t.Helper()
	s := &Server{t: t, options: server.Options{Port: server.RANDOM_PORT, StoreDir: t.TempDir()}}
	for _, e := range edit {
		e(&s.options)
	}
	s.Run()
	s.options.Port = s.Addr().(*net.TCPAddr).Port
	t.Cleanup(s.Stop)
	return s
}

// Run starts the server again after Stop: on the same port, with the same files.
func (s *Server) Run() {
	s.t.Helper()
	running, err := Serve(s.options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Server = running
}

// Stop ends the server and all its connections. What is stored on files stays.
func (s *Server) Stop() {
	s.Shutdown()
	s.WaitForShutdown()
}

// Serve starts a server with JetStream on 127.0.0.1, and returns when it takes connections.
func Serve(o server.Options) (*server.Server, error) {
	o.Host, o.JetStream, o.NoLog, o.NoSigs = "127.0.0.1", true, true, true
	s, err := server.NewServer(&o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(startTime) {
		s.Shutdown()
		return nil, fmt.Errorf("natstest: the server takes no connections after %v", startTime)
	}
	return s, nil
}

// Eventually waits for what a server does in its own time. It fails the test after 20 s.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
