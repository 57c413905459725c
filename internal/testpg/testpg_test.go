//go:build unix

package testpg_test

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenetdev/tenet/internal/testpg"
)

func TestAServerRestartsAndIsRemovedByClose(t *testing.T) {
	server, err := testpg.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	answers := func() bool {
		c, err := net.Dial("tcp", u.Host)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	if !answers() {
		t.Fatal("a started server does not answer")
	}
	for name, end := range map[string]func() error{"Stop": server.Stop, "Kill": server.Kill} {
		if err := end(); err != nil || answers() {
			t.Fatalf("after %s: %v, answers %v", name, err, answers())
		}
		if err := server.Run(); err != nil || !answers() {
			t.Fatalf("after Run: %v, answers %v", err, answers())
		}
	}
	if err := server.Close(); err != nil || answers() {
		t.Fatalf("after Close: %v, answers %v", err, answers())
	}
}

func TestOpenUsesTheServerOfTheEnvironment(t *testing.T) {
	t.Setenv("TENET_TEST_POSTGRES", "postgres://elsewhere/db")
	server, err := testpg.Open()
	if err != nil || server.URL() != "postgres://elsewhere/db" {
		t.Fatalf("%v, %v", server, err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTheClockIsSetWhileTheServerRuns(t *testing.T) {
	server, err := testpg.StartWithClock()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, offset := range []time.Duration{time.Hour, -time.Hour, 0} {
		if err := server.SetClock(offset); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("psql", "-Atc", "SELECT extract(epoch FROM clock_timestamp())::bigint", server.ClockURL()).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(seconds, 0)
		if off := now.Sub(time.Now().Add(offset)).Abs(); off > time.Minute {
			t.Errorf("the clock set to %+v is off by %v", offset, off)
		}
	}
}

// TestCloseReportsACrash kills a process of the server, which ends all its connections and goes on.
func TestCloseReportsACrash(t *testing.T) {
	server, err := testpg.Start()
	if err != nil {
		t.Fatal(err)
	}
	children := func(of int) []string {
		out, err := exec.Command("pgrep", "-P", strconv.Itoa(of), "postgres").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	main, err := strconv.Atoi(children(os.Getpid())[0])
	if err != nil {
		t.Fatal(err)
	}
	one, err := strconv.Atoi(children(main)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(one, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for crashed := false; !crashed; <-time.After(10 * time.Millisecond) { // the others end too
		crashed = syscall.Kill(one, 0) != nil
	}
	if err := server.Close(); err == nil || !strings.Contains(err.Error(), "was terminated by signal 9") {
		t.Errorf("Close: %v", err)
	}
}
