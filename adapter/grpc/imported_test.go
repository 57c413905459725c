package tenetgrpc_test

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	tenetgrpc "github.com/tenetdev/tenet/adapter/grpc"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/retry"
)

// scripted answers calls with a list of codes in turn, the last one again and again.
type scripted struct {
	grpc_testing.UnimplementedTestServiceServer
	mu     sync.Mutex
	script []codes.Code
	calls  int
}

func (s *scripted) next() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := s.script[min(s.calls, len(s.script)-1)]
	s.calls++
	return status.Error(code, "scripted") // nil for OK
}

func (s *scripted) UnaryCall(context.Context, *request) (*response, error) {
	return &response{}, s.next()
}

func (s *scripted) EmptyCall(context.Context, *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	return &grpc_testing.Empty{}, s.next()
}

// play answers a call by a script, and returns the code that the caller got and the number of attempts that were made.
func (s *scripted) play(script []codes.Code, call func() error) (codes.Code, int) {
	s.mu.Lock()
	s.script, s.calls = script, 0
	s.mu.Unlock()
	err := call()
	s.mu.Lock()
	defer s.mu.Unlock()
	return status.Code(err), s.calls
}

// TestT7AnImportedServiceConfigMakesTheAttemptsOfGRPC executes testdata/service-config.json with grpc-go's own retries, and
// testdata/imported.yaml, to which `tenet policy import grpc` converts it, with Tenet's.
func TestT7AnImportedServiceConfigMakesTheAttemptsOfGRPC(t *testing.T) {
	config, err := os.ReadFile("testdata/service-config.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/imported.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, err := policyfile.Parse("testdata/imported.yaml", text, policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	executor := retry.NewExecutor(retry.ExecutorOptions{
		Provider:    document.Set,
		Classifiers: map[string]classify.Classifier{tenetgrpc.ClassifierName: tenetgrpc.Classifier()},
		Classes:     []classify.Family{tenetgrpc.Classes()},
	})
	server := &scripted{}
	ours, stop := connect(t, server, tenetgrpc.Options{Executor: executor}, grpc.WithDisableRetry())
	defer stop()
	theirs, stopTheirs := connect(t, server, tenetgrpc.Options{}, grpc.WithUnaryInterceptor(nil), grpc.WithDefaultServiceConfig(string(config)))
	defer stopTheirs()
	methods := map[string]func(grpc_testing.TestServiceClient) error{
		"UnaryCall": func(c grpc_testing.TestServiceClient) error {
			_, err := c.UnaryCall(t.Context(), &request{})
			return err
		},
		"EmptyCall": func(c grpc_testing.TestServiceClient) error {
			_, err := c.EmptyCall(t.Context(), &grpc_testing.Empty{})
			return err
		},
	}
	every := []codes.Code{codes.OK}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		every = append(every, c, codes.Unavailable, codes.ResourceExhausted) // the codes that are retried come often
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		script := make([]codes.Code, 1+random.IntN(6))
		for i := range script {
			script[i] = every[random.IntN(len(every))]
		}
		for _, name := range []string{"UnaryCall", "EmptyCall"} {
			code, calls := server.play(script, func() error { return methods[name](ours) })
			wantCode, wantCalls := server.play(script, func() error { return methods[name](theirs) })
			if code != wantCode || calls != wantCalls {
				t.Fatalf("%s, %v: %v after %d attempts; grpc-go: %v after %d", name, script, code, calls, wantCode, wantCalls)
			}
		}
	}
}
