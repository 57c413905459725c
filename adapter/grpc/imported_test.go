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

// connectBoth makes a client that executes a service config with grpc-go's own retries, and one that executes the document, to
// which `tenet policy import grpc` converts it, with Tenet's.
func connectBoth(t *testing.T, server *scripted, serviceConfig, imported string) (ours, theirs grpc_testing.TestServiceClient) {
	t.Helper()
	config, err := os.ReadFile(serviceConfig)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(imported)
	if err != nil {
		t.Fatal(err)
	}
	document, err := policyfile.Parse(imported, text, policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	executor := retry.NewExecutor(retry.ExecutorOptions{
		Provider:    document.Set,
		Classifiers: map[string]classify.Classifier{tenetgrpc.ClassifierName: tenetgrpc.Classifier()},
		Classes:     []classify.Family{tenetgrpc.Classes()},
	})
	ours, stop := connect(t, server, tenetgrpc.Options{Executor: executor}, grpc.WithDisableRetry())
	t.Cleanup(stop)
	theirs, stopTheirs := connect(t, server, tenetgrpc.Options{}, grpc.WithUnaryInterceptor(nil), grpc.WithDefaultServiceConfig(string(config)))
	t.Cleanup(stopTheirs)
	return ours, theirs
}

// TestT7AnImportedServiceConfigMakesTheAttemptsOfGRPC compares retries. Hedging has nothing to be compared with: grpc-go does not
// implement hedgingPolicy (v1.85).
func TestT7AnImportedServiceConfigMakesTheAttemptsOfGRPC(t *testing.T) {
	server := &scripted{}
	ours, theirs := connectBoth(t, server, "testdata/service-config.json", "testdata/imported.yaml")
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

// TestT7AnImportedRetryThrottlingRefusesTheRetriesOfGRPC compares retryThrottling with the budget that it becomes. grpc-go charges
// each failure and credits each success, the budget charges each retry and credits each call. That is the same for calls that succeed
// in the end, until the tokens run out. In an outage grpc-go also charges the last failure of a call, and credits none.
func TestT7AnImportedRetryThrottlingRefusesTheRetriesOfGRPC(t *testing.T) {
	server := &scripted{}
	ours, theirs := connectBoth(t, server, "testdata/throttled.json", "testdata/throttled.yaml")
	play := func(c grpc_testing.TestServiceClient, script ...codes.Code) (codes.Code, int) {
		return server.play(script, func() error {
			_, err := c.UnaryCall(t.Context(), &request{})
			return err
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	const maxTokens, ratio = 20, 0.5 // as in testdata
	tokens, retries := float64(maxTokens), 0
	for range 150 {
		var script []codes.Code
		for range random.IntN(4) { // 1.5 failures on average
			if tokens -= 1; tokens > maxTokens/2 {
				script = append(script, codes.Unavailable)
			} else {
				tokens++ // one more would be refused
			}
		}
		tokens = min(tokens+ratio, maxTokens)
		script = append(script, codes.OK)
		retries += len(script) - 1
		code, calls := play(ours, script...)
		wantCode, wantCalls := play(theirs, script...)
		if code != wantCode || calls != wantCalls {
			t.Fatalf("%v: %v after %d attempts; grpc-go: %v after %d", script, code, calls, wantCode, wantCalls)
		}
	}
	if retries < 60 {
		t.Errorf("%d retries do not test the tokens, of which %d are there from the start", retries, maxTokens/2)
	}

	server = &scripted{}
	ours, theirs = connectBoth(t, server, "testdata/throttled.json", "testdata/throttled.yaml") // with all their tokens
	const outage = 40
	got, want := 0, 0
	for range outage {
		_, n := play(ours, codes.Unavailable)
		_, m := play(theirs, codes.Unavailable)
		got, want = got+n-1, want+m-1
	}
	// grpc-go: two calls of four attempts, two failures of a third; 10 tokens are left, and half of 20 is not enough.
	if most := maxTokens/2 + int(ratio*outage); want != 7 || got < want || got > most {
		t.Errorf("%d retries in an outage of %d calls, want at most %d; grpc-go: %d, want 7", got, outage, most, want)
	}
}
