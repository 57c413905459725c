//go:build unix

package testredis

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenetdev/tenet/internal/debian"
)

const (
	startTime = 30 * time.Second
	poll      = 10 * time.Millisecond
)

// Server is a Redis server. Its methods are for one goroutine.
type Server struct {
	url    string
	binary string
	folder string
	port   int
	cmd    *exec.Cmd
	output *bytes.Buffer
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

func (s *Server) make() (err error) {
	if s.binary, err = debian.Find("redis-server"); err != nil {
		return err
	}
	if s.folder, err = os.MkdirTemp("", "testredis"); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return err
	}
	s.url = fmt.Sprintf("redis://127.0.0.1:%d/0", s.port)
	return s.Run()
}

// URL is where the server takes connections.
func (s *Server) URL() string { return s.url }

// Run starts the server, at first or after Stop or Kill, and returns when it answers.
func (s *Server) Run() error {
	s.cmd, s.output = exec.Command(s.binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.folder,
		"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--daemonize", "no"), &bytes.Buffer{}
	s.cmd.Dir, s.cmd.SysProcAttr = s.folder, attributes()
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("start redis: %w", err)
	}
	for end := time.Now().Add(startTime); time.Now().Before(end); time.Sleep(poll) {
		if s.answers() {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("waited %v for redis: %s", startTime, s.output), s.Kill())
}

// answers reports whether the server is ready: while it loads its data, it refuses commands.
func (s *Server) answers() bool {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", s.port), time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "+PONG")
}

// Stop shuts the server down in order, which closes all connections.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

// Kill ends the server as a crash would.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("stop redis: %w", err)
	}
	kill := time.AfterFunc(startTime, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Wait(); err != nil && signal != syscall.SIGKILL {
		return fmt.Errorf("stop redis: %w: %s", err, s.output)
	}
	return nil
}

// Pause stops the server's process without closing its connections, and Resume lets it go on: a server that hangs.
func (s *Server) Pause() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Close ends the server and removes it. It leaves the server of TENET_TEST_REDIS alone.
func (s *Server) Close() error {
	if s.folder == "" {
		return nil
	}
	return errors.Join(s.Kill(), os.RemoveAll(s.folder))
}
