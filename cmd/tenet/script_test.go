//go:build unix

package main

import (
	"errors"
	"flag"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "update the scripts with the commands' output")

// TestMain lets scripts run this test binary as tenet.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tenet": program})
}

// TestScripts runs the scripts testdata/*.txtar.
func TestScripts(t *testing.T) { testscript.Run(t, scripts()) }

func scripts() testscript.Params {
	return testscript.Params{
		Dir: "testdata", UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_CONFIG_HOME", e.WorkDir+"/config")
			e.Setenv("GORACE", "atexit_sleep_ms=0") // a race-enabled tenet would take a second to exit
			e.Setenv("GOGC", "400")                 // most commands end before they have garbage
			setupServers(e)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "serve": startServer, "term": stopServer, "kill9": killServer, "envfile": setFromFile, "certificate": writeCertificate},
	}
}

// exits runs a command and checks its exit code: exits CODE COMMAND…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
