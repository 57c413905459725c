//go:build unix

package testpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenetdev/tenet/internal/debian"
	"github.com/tenetdev/tenet/internal/testserver"
)

// Server is a PostgreSQL server. Its methods are for one goroutine.
type Server struct {
	url     string
	bin     string
	folder  string
	port    int
	clock   bool                // the server was started by StartWithClock
	ahead   time.Duration       // how far Advance has moved the clock
	as      *syscall.Credential // of the server's user; nil for the caller's own
	set     []string            // settings such as fsync=off
	process testserver.Process
}

// NoSync is a setting for tests that do not crash the server's machine: commits do not wait for the disk. What was
// committed still outlives [Server.Kill].
const NoSync = "fsync=off"

// NoVacuum is a setting for tests that make many schemas, whose tables autovacuum would look at again and again.
const NoVacuum = "autovacuum=off"

// Open returns the server of TENET_TEST_POSTGRES, a URL, or where that is not set a new one.
func Open() (*Server, error) {
	if url := os.Getenv("TENET_TEST_POSTGRES"); url != "" {
		return &Server{url: url}, nil
	}
	return Start()
}

// Start makes and starts a new server with some settings, such as [NoSync].
func Start(settings ...string) (*Server, error) { return start(&Server{set: settings}) }

// StartWithClock makes and starts a new server whose clock SetClock sets, for connections to its ClockURL.
func StartWithClock(settings ...string) (*Server, error) {
	return start(&Server{clock: true, set: settings})
}

func start(s *Server) (*Server, error) {
	if err := s.make(); err != nil {
		return nil, errors.Join(fmt.Errorf("testpg: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) make() (err error) {
	initdb, err := debian.Find("postgresql")
	if err != nil {
		return err
	}
	s.bin = filepath.Dir(initdb)
	if s.folder, err = os.MkdirTemp("", "testpg"); err != nil {
		return err
	}
	if os.Geteuid() == 0 { // the server refuses to run as root
		if s.as, err = credential("postgres"); err != nil {
			return err
		}
		if err = os.Chown(s.folder, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	if err := testserver.FreePorts(&s.port); err != nil {
		return err
	}
	s.url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
	create := s.command("initdb", "--pgdata", s.data(), "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	if out, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	s.process = testserver.Process{Name: "postgres", Command: s.postgres, User: s.as, Orphan: syscall.SIGINT, Answers: func() bool {
		return s.command("pg_isready", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port)).Run() == nil
	}}
	if err = s.Run(); err != nil || !s.clock {
		return err
	}
	return s.makeClock()
}

// clocks are functions that stand for those of the server where they are found first: they add the text of the file "clock" to the
// time. Its reader is the server's own, declared to read the same all through a statement, so that plans stay what they are.
const clocks = `CREATE SCHEMA clock;
CREATE FUNCTION clock.read(text) RETURNS text LANGUAGE internal STABLE STRICT AS 'pg_read_file_all';
CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$SELECT pg_catalog.now() + clock.read('clock')::interval$$;
CREATE FUNCTION clock.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS $$SELECT pg_catalog.statement_timestamp() + clock.read('clock')::interval$$;
CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT pg_catalog.clock_timestamp() + clock.read('clock')::interval$$;`

func (s *Server) makeClock() error {
	if err := s.SetClock(0); err != nil {
		return err
	}
	if out, err := s.command("psql", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--command", clocks, s.url).CombinedOutput(); err != nil {
		return fmt.Errorf("make the clock: %w: %s", err, out)
	}
	return nil
}

// URL is where the server's database is.
func (s *Server) URL() string { return s.url }

// ClockURL is the URL with the clock of a server of StartWithClock. Each reading of the clock costs some 10 µs.
func (s *Server) ClockURL() string {
	return s.url + "&options=-csearch_path%3Dclock,pg_catalog,public"
}

// SetClock sets the clock of a server of StartWithClock to that of the machine plus an offset, at once. Only what SQL reads of the
// time of day is set: sleeps and timeouts of the server take as long as ever.
func (s *Server) SetClock(offset time.Duration) error {
	if !s.clock {
		return errors.New("testpg: the server was not started by StartWithClock")
	}
	file := filepath.Join(s.data(), "clock")
	if err := os.WriteFile(file+".next", fmt.Appendf(nil, "%.6f s", offset.Seconds()), 0o644); err != nil { //nolint:gosec // another user's server reads it
		return err
	}
	return os.Rename(file+".next", file)
}

// Advance moves the clock of a server of StartWithClock forward by d for the rest of a test.
func (s *Server) Advance(t *testing.T, d time.Duration) {
	t.Helper()
	if s.ahead == 0 {
		t.Cleanup(func() {
			s.ahead = 0
			if err := s.SetClock(0); err != nil {
				t.Error(err)
			}
		})
	}
	s.ahead += d
	if err := s.SetClock(s.ahead); err != nil {
		t.Fatal(err)
	}
}

// postgres makes the command that runs the server.
func (s *Server) postgres() *exec.Cmd {
	cmd := s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.port), "-k", s.folder,
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB")
	for _, setting := range s.set {
		cmd.Args = append(cmd.Args, "-c", setting)
	}
	return cmd
}

// Run starts the server, at first or after Stop or Kill, and returns when it takes connections.
func (s *Server) Run() error { return s.process.Run() }

// Stop ends the server's process and all connections. Stored data stay.
func (s *Server) Stop() error { return s.process.End(syscall.SIGINT) } // fast shutdown

// Kill ends the server as a crash does: it writes nothing more, and recovers what was committed from its log when it runs again.
func (s *Server) Kill() error { return s.process.End(syscall.SIGKILL) }

// Close stops the server and removes it. It leaves the server of TENET_TEST_POSTGRES alone.
func (s *Server) Close() error {
	if s.folder == "" {
		return nil
	}
	err := s.process.End(syscall.SIGQUIT) // at once: nothing is to be kept
	return errors.Join(err, s.crashes(), os.RemoveAll(s.folder))
}

// crash is what the server logs of a process of its own that has crashed, after which it ends all connections.
var crash = regexp.MustCompile(`(?m)^.*(was terminated by signal|exited with exit code|PANIC:).*(\n.*DETAIL:.*)?$`)

// crashes returns an error if processes of the server have crashed.
func (s *Server) crashes() error {
	if lines := crash.FindAllString(s.process.Output(), 10); lines != nil {
		return fmt.Errorf("testpg: the server crashed by itself:\n%s", strings.Join(lines, "\n"))
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.folder
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
