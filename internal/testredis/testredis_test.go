//go:build unix

package testredis

import (
	"errors"
	"os"
	"testing"
)

func TestAServerRestartsAndIsRemovedByClose(t *testing.T) {
	server, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, end := range map[string]func() error{"Stop": server.Stop, "Kill": server.Kill} {
		if !server.answers() {
			t.Fatal("the server does not answer")
		}
		if err := end(); err != nil || server.answers() {
			t.Fatalf("after %s: %v", name, err)
		}
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Close(); err != nil || server.answers() {
		t.Fatalf("after Close: %v", err)
	}
	if _, err := os.Stat(server.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder still exists: %v", err)
	}
}

func TestOpenUsesTheServerOfTheEnvironment(t *testing.T) {
	t.Setenv("TENET_TEST_REDIS", "redis://elsewhere/")
	server, err := Open()
	if err != nil || server.URL() != "redis://elsewhere/" {
		t.Fatalf("%v, %v", server, err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}
