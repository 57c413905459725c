package tenetgrpc_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	tenetgrpc "github.com/tenetdev/tenet/adapter/grpc"
)

// health is unavailable for the first check.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	calls int
}

func (h *health) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if h.calls++; h.calls == 1 {
		return nil, status.Error(codes.Unavailable, "starting")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func Example() {
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, &health{})
	go server.Serve(listener)
	defer server.Stop()

	conn, err := grpc.NewClient("passthrough:///memory",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(), // policies decide what is retried
		grpc.WithUnaryInterceptor(tenetgrpc.UnaryClientInterceptor(tenetgrpc.Options{})),
		grpc.WithStreamInterceptor(tenetgrpc.StreamClientInterceptor(tenetgrpc.Options{})),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(answer.GetStatus(), err)
	// Output: SERVING <nil>
}
