package tenetgrpc_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/test/bufconn"

	tenetgrpc "github.com/tenetdev/tenet/adapter/grpc"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed is a policy of 3 attempts, 10 ms apart.
func fixed(edit ...func(*policy.Policy)) policy.Policy {
	p := policy.Policy{Retry: policy.Retry{
		MaxAttempts: 3, InitialBackoff: 10 * time.Millisecond, MaxBackoff: 10 * time.Millisecond, Jitter: policy.JitterNone,
	}}
	for _, e := range edit {
		e(&p)
	}
	return p
}

func options(t *testing.T, p policy.Policy) retry.ExecutorOptions {
	t.Helper()
	compiled, err := policy.Compile(p, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	return retry.ExecutorOptions{
		Provider:    policy.NewSet(policy.SetConfig{Calls: compiled}),
		Classifiers: map[string]classify.Classifier{tenetgrpc.ClassifierName: tenetgrpc.Classifier()},
		Classes:     []classify.Family{tenetgrpc.Classes()},
	}
}

func recording(t *testing.T, edit ...func(*policy.Policy)) (*retry.Executor, *tenettest.Waits) {
	t.Helper()
	return tenettest.NewExecutor(options(t, fixed(edit...)))
}

// service is a test service made of functions; each gets the number of the call, from 1.
type service struct {
	grpc_testing.UnimplementedTestServiceServer
	unary  func(ctx context.Context, n int, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error)
	output func(n int, req *grpc_testing.StreamingOutputCallRequest, s grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error
	input  func(n int, s grpc.ClientStreamingServer[grpc_testing.StreamingInputCallRequest, grpc_testing.StreamingInputCallResponse]) error
	duplex func(n int, s grpc.BidiStreamingServer[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error

	mu    sync.Mutex
	calls int
}

func (s *service) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.calls
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *service) UnaryCall(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	return s.unary(ctx, s.next(), req)
}

func (s *service) StreamingOutputCall(req *grpc_testing.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
	return s.output(s.next(), req, stream)
}

func (s *service) StreamingInputCall(stream grpc.ClientStreamingServer[grpc_testing.StreamingInputCallRequest, grpc_testing.StreamingInputCallResponse]) error {
	return s.input(s.next(), stream)
}

func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error {
	return s.duplex(s.next(), stream)
}

// connect starts a server and a client with in-memory connections; stop ends both.
func connect(t *testing.T, s grpc_testing.TestServiceServer, o tenetgrpc.Options, more ...grpc.DialOption) (client grpc_testing.TestServiceClient, stop func()) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(server, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///memory", append([]grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(tenetgrpc.UnaryClientInterceptor(o)),
		grpc.WithStreamInterceptor(tenetgrpc.StreamClientInterceptor(o)),
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return grpc_testing.NewTestServiceClient(conn), func() {
		conn.Close()
		server.Stop()
		<-served
	}
}

func text(s string) *grpc_testing.Payload { return &grpc_testing.Payload{Body: []byte(s)} }

func chunk(s string) *grpc_testing.StreamingOutputCallResponse {
	return &grpc_testing.StreamingOutputCallResponse{Payload: text(s)}
}
