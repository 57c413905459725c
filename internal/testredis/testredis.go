//go:build unix

package testredis

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/tenetdev/tenet/internal/debian"
	"github.com/tenetdev/tenet/internal/testserver"
)

// Server is a Redis server. Its methods are for one goroutine.
type Server struct {
	url     string
	folder  string
	port    int
	process testserver.Process
}

// Open returns the server of TENET_TEST_REDIS, a URL such as redis://host:6379/0, or where that is not set a new one.
func Open() (*Server, error) {
	if url := os.Getenv("TENET_TEST_REDIS"); url != "" {
		return &Server{url: url}, nil
	}
	return Start()
}

// Start makes and starts a new server.
func Start() (*Server, error) {
	s := &Server{}
	if err := s.make(); err != nil {
		return nil, errors.Join(fmt.Errorf("testredis: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) make() error {
	binary, err := debian.Find("redis-server")
	if err != nil {
		return err
	}
	if s.folder, err = os.MkdirTemp("", "testredis"); err != nil {
		return err
	}
	if err := testserver.FreePorts(&s.port); err != nil {
		return err
	}
	s.url = fmt.Sprintf("redis://127.0.0.1:%d/0", s.port)
	s.process = testserver.Process{Name: "redis", Answers: s.answers, Command: func() *exec.Cmd {
		cmd := exec.Command(binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.folder,
			"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--daemonize", "no")
		cmd.Dir = s.folder
		return cmd
	}}
	return s.Run()
}

// URL is where the server takes connections.
func (s *Server) URL() string { return s.url }

// Run starts the server, at first or after Stop or Kill, and returns when it answers.
func (s *Server) Run() error { return s.process.Run() }

// answers reports whether the server is ready: while it loads its data, it refuses commands.
func (s *Server) answers() bool { return testserver.Says(s.port, "PING\r\n", "+PONG") }

// Stop shuts the server down in order, which closes all connections.
func (s *Server) Stop() error { return s.process.End(syscall.SIGTERM) }

// Kill ends the server as a crash would.
func (s *Server) Kill() error { return s.process.End(syscall.SIGKILL) }

// Pause stops the server's process without closing its connections, and Resume lets it go on: a server that hangs.
func (s *Server) Pause() error { return s.process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.process.Signal(syscall.SIGCONT) }

// Close ends the server and removes it. It leaves the server of TENET_TEST_REDIS alone.
func (s *Server) Close() error {
	if s.folder == "" {
		return nil
	}
	return errors.Join(s.Kill(), os.RemoveAll(s.folder))
}
