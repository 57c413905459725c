//go:build unix

package testrabbit

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tenetdev/tenet/internal/debian"
)

const (
	startTime = 60 * time.Second
	stopTime  = 30 * time.Second
	poll      = 50 * time.Millisecond
)

// Server is a RabbitMQ server. Its methods are for one goroutine.
type Server struct {
	url    string
	script string
	folder string
	ports  struct{ amqp, dist, epmd int }
	epmd   *exec.Cmd
	cmd    *exec.Cmd
	output *bytes.Buffer
}

// Open returns the server of TENET_TEST_RABBITMQ, a URL such as amqp://user:password@host:5672/, or where that is not set a
// new one.
func Open() (*Server, error) {
	if url := os.Getenv("TENET_TEST_RABBITMQ"); url != "" {
		return &Server{url: url}, nil
	}
	return Start()
}

// Start makes and starts a new server.
func Start() (*Server, error) {
	s := &Server{}
	if err := s.make(); err != nil {
		return nil, errors.Join(fmt.Errorf("testrabbit: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) make() (err error) {
	if s.script, err = debian.Find("rabbitmq-server"); err != nil {
		return err
	}
	if s.folder, err = os.MkdirTemp("", "testrabbit"); err != nil {
		return err
	}
	if err := os.WriteFile(s.path("plugins"), []byte("[].\n"), 0o600); err != nil {
		return err
	}
	if err := freePorts(&s.ports.amqp, &s.ports.dist, &s.ports.epmd); err != nil {
		return err
	}
	s.url = fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", s.ports.amqp)
	if err := s.mapPorts(); err != nil {
		return err
	}
	return s.Run()
}

// mapPorts starts the port mapper, which the server would otherwise start as a daemon that outlives it.
func (s *Server) mapPorts() error {
	binary, err := exec.LookPath("epmd")
	if err != nil {
		return fmt.Errorf("epmd, which comes with Erlang, is missing: %w", err)
	}
	s.epmd = s.command(binary)
	if err := s.epmd.Start(); err != nil {
		s.epmd = nil
		return fmt.Errorf("start epmd: %w", err)
	}
	return until("epmd", func() bool { return answers(s.ports.epmd, nil) })
}

// URL is where the server takes AMQP connections: of the default virtual host, with a user who may do everything.
func (s *Server) URL() string { return s.url }

// Run starts the server, at first or after Stop or Kill, and returns when it takes connections.
func (s *Server) Run() error {
	s.cmd, s.output = s.command(s.script), &bytes.Buffer{}
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	s.cmd.WaitDelay = stopTime // helpers of the runtime may keep the output open for a moment
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("start rabbitmq: %w", err)
	}
	header := []byte("AMQP\x00\x00\x09\x01")
	if err := until("rabbitmq", func() bool { return answers(s.ports.amqp, header) }); err != nil {
		return errors.Join(fmt.Errorf("%w: %s", err, s.output), s.Kill())
	}
	return nil
}

// Stop shuts the server down in order, which closes all connections. Durable messages stay.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

// Kill ends the server as a crash would. Durable messages that were confirmed stay.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	cmd := s.cmd
	s.cmd = nil
	all := -cmd.Process.Pid // the group: the runtime has helpers
	if signal == syscall.SIGKILL {
		_ = syscall.Kill(all, signal)
	} else if err := cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("stop rabbitmq: %w", err)
	}
	kill := time.AfterFunc(stopTime, func() { _ = syscall.Kill(all, syscall.SIGKILL) })
	defer kill.Stop()
	err := cmd.Wait()
	_ = syscall.Kill(all, syscall.SIGKILL)
	if err != nil && signal != syscall.SIGKILL {
		return fmt.Errorf("stop rabbitmq: %w: %s", err, s.output)
	}
	return until("the end of rabbitmq", func() bool { return errors.Is(syscall.Kill(all, 0), syscall.ESRCH) })
}

// Close ends the server and removes it. It leaves the server of TENET_TEST_RABBITMQ alone.
func (s *Server) Close() error {
	if s.folder == "" {
		return nil
	}
	err := s.Kill() // nothing is to be kept
	if s.epmd != nil {
		_ = s.epmd.Process.Kill()
		_ = s.epmd.Wait()
		s.epmd = nil
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}

func (s *Server) path(name string) string { return filepath.Join(s.folder, name) }

// command makes a process in the server's environment, without the caller's variables for RabbitMQ and Erlang.
func (s *Server) command(name string) *exec.Cmd {
	cmd := exec.Command(name)
	cmd.Dir, cmd.SysProcAttr = s.folder, attributes()
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RABBITMQ_") && !strings.HasPrefix(v, "ERL_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env,
		"HOME="+s.folder, "LC_ALL=C.UTF-8", "ERL_EPMD_ADDRESS=127.0.0.1", fmt.Sprint("ERL_EPMD_PORT=", s.ports.epmd),
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", fmt.Sprint("RABBITMQ_NODE_PORT=", s.ports.amqp),
		fmt.Sprint("RABBITMQ_DIST_PORT=", s.ports.dist), fmt.Sprintf("RABBITMQ_NODENAME=test%d@localhost", s.ports.amqp),
		"RABBITMQ_MNESIA_BASE="+s.path("data"), "RABBITMQ_LOG_BASE="+s.path("log"), "RABBITMQ_PID_FILE="+s.path("pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+s.path("plugins"), "RABBITMQ_CONF_ENV_FILE="+s.path("env"),
		"RABBITMQ_CONFIG_FILE="+s.path("config"), "RABBITMQ_ADVANCED_CONFIG_FILE="+s.path("advanced"),
		"RABBITMQ_ALLOW_INPUT=1", // no shell in between that would have to pass signals on
		// One scheduler, which loads the code in half the time that several take, and leaves the other processors to the test.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 -noinput -kernel inet_dist_use_interface {127,0,0,1}",
	)
	return cmd
}

func until(what string, ok func() bool) error {
	for end := time.Now().Add(startTime); time.Now().Before(end); time.Sleep(poll) {
		if ok() {
			return nil
		}
	}
	return fmt.Errorf("waited %v for %s", startTime, what)
}

// answers tells whether something listens at a port and, where it is asked something, says anything.
func answers(port int, question []byte) bool {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	if question == nil {
		return true
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write(question); err != nil {
		return false
	}
	_, err = c.Read(make([]byte, 1))
	return err == nil
}

// freePorts finds a port for each, all different.
func freePorts(ports ...*int) error {
	for _, p := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		*p = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}
