//go:build unix

package testrabbit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tenetdev/tenet/internal/debian"
	"github.com/tenetdev/tenet/internal/testserver"
)

// Server is a RabbitMQ server. Its methods are for one goroutine.
type Server struct {
	url          string
	folder       string
	ports        struct{ amqp, dist, epmd int }
	mapper, node testserver.Process
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

func (s *Server) make() error {
	script, err := debian.Find("rabbitmq-server")
	if err != nil {
		return err
	}
	epmd, err := exec.LookPath("epmd")
	if err != nil {
		return fmt.Errorf("epmd, which comes with Erlang, is missing: %w", err)
	}
	if s.folder, err = os.MkdirTemp("", "testrabbit"); err != nil {
		return err
	}
	if err := os.WriteFile(s.path("plugins"), []byte("[].\n"), 0o600); err != nil {
		return err
	}
	if err := testserver.FreePorts(&s.ports.amqp, &s.ports.dist, &s.ports.epmd); err != nil {
		return err
	}
	s.url = fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", s.ports.amqp)
	// The server would otherwise start the port mapper as a daemon that outlives it.
	s.mapper = testserver.Process{
		Name: "epmd", Command: func() *exec.Cmd { return s.command(epmd) }, Answers: func() bool { return testserver.Says(s.ports.epmd, "", "") },
	}
	s.node = testserver.Process{Name: "rabbitmq", Group: true, Command: func() *exec.Cmd { return s.command(script) }, Answers: s.answers}
	if err := s.mapper.Run(); err != nil {
		return err
	}
	return s.Run()
}

// load makes a server load its code at once, from the folders of the applications that it runs. It would otherwise load module by
// module, look for each in the folders of a hundred applications, most of them plugins, and take twice the time to start.
const load = `-eval 'L = fun(L, A) -> case application:load(A) of ok ->
	{ok, Needs} = application:get_key(A, applications), [L(L, B) || B <- Needs], ok; _ -> ok end end, L(L, rabbit),
	All = [A || {A, _, _} <- application:loaded_applications()], code:add_pathsa([code:lib_dir(A) ++ "/ebin" || A <- All]),
	code:ensure_modules_loaded([M || A <- All, {ok, Modules} <- [application:get_key(A, modules)], M <- Modules]).'`

// answers reports whether the server takes AMQP connections.
func (s *Server) answers() bool { return testserver.Says(s.ports.amqp, "AMQP\x00\x00\x09\x01", "") }

// URL is where the server takes AMQP connections: of the default virtual host, with a user who may do everything.
func (s *Server) URL() string { return s.url }

// Run starts the server, at first or after Stop or Kill, and returns when it takes connections.
func (s *Server) Run() error { return s.node.Run() }

// Stop shuts the server down in order, which closes all connections. Durable messages stay.
func (s *Server) Stop() error { return s.node.End(syscall.SIGTERM) }

// Kill ends the server as a crash would. Durable messages that were confirmed stay.
func (s *Server) Kill() error { return s.node.End(syscall.SIGKILL) }

// Close ends the server and removes it. It leaves the server of TENET_TEST_RABBITMQ alone.
func (s *Server) Close() error {
	if s.folder == "" {
		return nil
	}
	return errors.Join(s.Kill(), s.mapper.End(syscall.SIGKILL), os.RemoveAll(s.folder)) // nothing is to be kept
}

func (s *Server) path(name string) string { return filepath.Join(s.folder, name) }

// command makes a process in the server's environment, without the caller's variables for RabbitMQ and Erlang.
func (s *Server) command(name string) *exec.Cmd {
	cmd := exec.Command(name)
	cmd.Dir = s.folder
	own := func(v string) bool { return strings.HasPrefix(v, "RABBITMQ_") || strings.HasPrefix(v, "ERL_") }
	cmd.Env = append(slices.DeleteFunc(os.Environ(), own),
		"HOME="+s.folder, "LC_ALL=C.UTF-8", "ERL_EPMD_ADDRESS=127.0.0.1", fmt.Sprint("ERL_EPMD_PORT=", s.ports.epmd),
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", fmt.Sprint("RABBITMQ_NODE_PORT=", s.ports.amqp),
		fmt.Sprint("RABBITMQ_DIST_PORT=", s.ports.dist), fmt.Sprintf("RABBITMQ_NODENAME=test%d@localhost", s.ports.amqp),
		"RABBITMQ_MNESIA_BASE="+s.path("data"), "RABBITMQ_LOG_BASE="+s.path("log"), "RABBITMQ_PID_FILE="+s.path("pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+s.path("plugins"), "RABBITMQ_CONF_ENV_FILE="+s.path("env"),
		"RABBITMQ_CONFIG_FILE="+s.path("config"), "RABBITMQ_ADVANCED_CONFIG_FILE="+s.path("advanced"),
		"RABBITMQ_ALLOW_INPUT=1", // no shell in between that would have to pass signals on
		"ERL_AFLAGS="+load,
		// One scheduler, which loads the code in half the time that several take, and leaves the other processors to the test.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 -noinput -kernel inet_dist_use_interface {127,0,0,1}",
	)
	return cmd
}
