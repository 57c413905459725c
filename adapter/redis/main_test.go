package redis_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/internal/testredis"
)

// url is the server of the tests.
var url string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if server := os.Getenv(processEnvironment); server != "" {
		return sharingProcess(server)
	}
	server, err := testredis.Open()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	url = server.URL()
	code := m.Run()
	if err := server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
