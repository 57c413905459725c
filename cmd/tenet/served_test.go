//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// served is the variable that makes tenet go through a server, in tests.
const served = "TENET_TEST_SERVED"

// program runs tenet as scripts do: as it is, or through a server of its own.
func program() {
	args := os.Args[1:]
	store, rest := storeOf(args)
	if os.Getenv(served) == "" || store == "" {
		main()
		return
	}
	code, err := throughServer(store, rest)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// storeOf returns the SQLite store of a command that can use a server instead, and the command without it. The store is empty if
// the command cannot use one, or would not find the store.
func storeOf(args []string) (store string, rest []string) {
	if len(args) == 0 || slices.Contains(args, "--dry-run") || slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return "", nil
	}
	store = os.Getenv("TENET_STORE")
	for i := 0; i < len(args); i++ {
		text, joined := strings.CutPrefix(args[i], "--store=")
		switch {
		case joined:
			store = text
		case args[i] == "--store" && i+1 < len(args):
			i++
			store = args[i]
		case args[0] == "audit" && strings.HasPrefix(args[i], "sqlite:"):
			store = args[i]
		default:
			rest = append(rest, args[i])
		}
	}
	path, lite := strings.CutPrefix(store, "sqlite:")
	_, err := os.Stat(path)
	creates := args[0] == "enqueue" || args[0] == "jobs" && len(args) > 1 && (args[1] == "import" || args[1] == "enqueue")
	switch {
	case !slices.Contains([]string{"jobs", "dlq", "redrives", "queues", "periodic", "idempotency", "enqueue", "audit"}, args[0]),
		!lite, err != nil && !creates, args[0] == "audit" && len(rest) == len(args), args[0] == "periodic" && len(args) > 1 && args[1] != "run":
		return "", nil
	}
	return store, rest
}

// throughServer runs a command through a server on a store, and returns its exit code.
func throughServer(store string, args []string) (int, error) {
	var plain []string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{served, "TENET_STORE", "TENET_AUDIT", "TENET_LOG_FORMAT", "TENET_LOG_LEVEL"}, name) {
			plain = append(plain, v)
		}
	}
	server := exec.Command(os.Args[0], "server", "--store", store, "--listen", "127.0.0.1:0")
	server.Env = plain
	log, err := server.StderrPipe()
	if err != nil {
		return 0, err
	}
	if err := server.Start(); err != nil {
		return 0, err
	}
	stop := func() error {
		err := server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait() // 143
		return err
	}
	said := bufio.NewReader(log)
	for before := ""; ; {
		line, err := said.ReadString('\n')
		if before += line; err != nil {
			return 0, errors.Join(fmt.Errorf("the server ended: %s", before), stop())
		}
		if url, ok := strings.CutPrefix(line, "listening on "); ok {
			args = append(args, "--server", strings.TrimSpace(url))
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, served+"=") || strings.HasPrefix(v, "TENET_STORE=") })
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, errors.Join(err, stop())
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	err = cmd.Wait()
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), errors.Join(err, stop())
}

// notServed lists the scripts that use stores but cannot go through a server, with the reasons.
var notServed = map[string]string{
	"jobs_watch": "it creates tokens, without which its server then refuses commands; it watches through a server by itself",
	"migrate":    "a server brings the tables of its store up to date, and the script needs them missing",
}

// TestS7ScriptsThroughAServer runs the scripts of the commands that take a store once more, each command through a server.
func TestS7ScriptsThroughAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server for each command")
	}
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, file := range all {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		uses := strings.Contains(read(t, file), "sqlite:") && !strings.HasPrefix(name, "server")
		if reason := notServed[name]; reason != "" && !uses {
			t.Errorf("%s is left out without need", name)
		} else if uses && reason == "" {
			files = append(files, file)
		}
	}
	p := scripts()
	p.Dir, p.Files = "", files
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		e.Setenv(served, "1")
		return setup(e)
	}
	testscript.Run(t, p)
}
