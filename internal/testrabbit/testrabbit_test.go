//go:build unix

package testrabbit

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestAServerRestartsAndIsRemovedByClose(t *testing.T) {
	server, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	up := func(want bool) {
		t.Helper()
		if got := server.answers(); got != want {
			t.Fatalf("the server answers: %v, want %v", got, want)
		}
	}
	up(true)
	ends := map[string]func() error{"Stop": server.Stop, "Kill": server.Kill}
	if testing.Short() { // a server takes seconds to start; Close kills it, and the tests of adapter/rabbitmq start it again
		clear(ends)
	}
	for name, end := range ends {
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		up(false)
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
		up(true)
	}
	folder, group, epmd := server.folder, -server.node.PID(), server.mapper.PID()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	up(false)
	for _, pid := range []int{group, epmd} {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d still runs: %v", pid, err)
		}
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder still exists: %v", err)
	}
}

func TestOpenUsesTheServerOfTheEnvironment(t *testing.T) {
	t.Setenv("TENET_TEST_RABBITMQ", "amqp://elsewhere/")
	server, err := Open()
	if err != nil || server.URL() != "amqp://elsewhere/" {
		t.Fatalf("%v, %v", server, err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
}
