package tenetgrpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	tenetgrpc "github.com/tenetdev/tenet/adapter/grpc"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

type emptyStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s emptyStream) Context() context.Context { return s.ctx }

// servers returns the interceptors of servers, each as a function that serves a call of /s/M.
func servers(ctx context.Context) map[string]func(o tenetgrpc.Options, handler func(context.Context) error) error {
	const method = "/s/M"
	return map[string]func(o tenetgrpc.Options, handler func(context.Context) error) error{
		"unary": func(o tenetgrpc.Options, handler func(context.Context) error) error {
			_, err := tenetgrpc.UnaryServerInterceptor(o)(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method},
				func(ctx context.Context, _ any) (any, error) { return nil, handler(ctx) })
			return err
		},
		"stream": func(o tenetgrpc.Options, handler func(context.Context) error) error {
			return tenetgrpc.StreamServerInterceptor(o)(nil, emptyStream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: method},
				func(_ any, s grpc.ServerStream) error { return handler(s.Context()) })
		},
	}
}

func TestB4AServerShedsWithResourceExhausted(t *testing.T) {
	for name, serve := range servers(t.Context()) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := fixed(func(p *policy.Policy) {
					p.Retry.MaxAttempts = 5
					p.Limit = policy.Limit{Concurrency: 1}
				})
				o := tenetgrpc.Options{Executor: retry.NewExecutor(options(t, p))}
				first := make(chan error, 1)
				failed := status.Error(codes.Unavailable, "down")
				calls := 0
				handler := func(ctx context.Context) error {
					calls++
					if _, in := retry.AttemptFromContext(ctx); !in {
						t.Error("the handler does not run in an attempt")
					}
					time.Sleep(time.Second)
					return failed
				}
				go func() { first <- serve(o, handler) }()
				synctest.Wait()
				s := status.Convert(serve(o, handler))
				if s.Code() != codes.ResourceExhausted || len(s.Details()) != 1 {
					t.Fatalf("%v, details %v", s, s.Details())
				}
				if info, ok := s.Details()[0].(*errdetails.RetryInfo); !ok || info.RetryDelay.AsDuration() != time.Second {
					t.Errorf("details %v", s.Details())
				}
				if err := <-first; !errors.Is(err, failed) || status.Code(err) != codes.Unavailable || calls != 1 {
					t.Errorf("the handler's error became %v, %d calls", err, calls)
				}
				if err := serve(o, func(context.Context) error { return nil }); err != nil {
					t.Errorf("the place is not free: %v", err)
				}
			})
		})
	}
}

// TestB4ARefusalAsksForTheWaitOfItsRateLimit: RetryInfo says when the rate limit has a place, at least a second later, and a client
// that waits so long is served.
func TestB4ARefusalAsksForTheWaitOfItsRateLimit(t *testing.T) {
	for name, serve := range servers(t.Context()) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := tenetgrpc.Options{Executor: retry.NewExecutor(options(t, fixed(func(p *policy.Policy) {
					p.Limit = policy.Limit{Rate: policy.Rate{Count: 1, Per: 5 * time.Second, Burst: 1}}
				})))}
				handled := 0
				call := func() error {
					return serve(o, func(context.Context) error { handled++; return nil })
				}
				if err := call(); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				for _, step := range []struct{ after, want time.Duration }{{0, 5 * time.Second}, {1500 * time.Millisecond, 3500 * time.Millisecond}, {4500 * time.Millisecond, time.Second}} {
					time.Sleep(time.Until(start.Add(step.after)))
					s := status.Convert(call())
					if s.Code() != codes.ResourceExhausted || s.Message() != "refused: rate_limited" || len(s.Details()) != 1 {
						t.Fatalf("after %v: %v, details %v", step.after, s, s.Details())
					}
					if info, ok := s.Details()[0].(*errdetails.RetryInfo); !ok || info.RetryDelay.AsDuration() != step.want {
						t.Errorf("after %v: details %v, want a wait of %v", step.after, s.Details(), step.want)
					}
				}
				time.Sleep(time.Until(start.Add(5 * time.Second)))
				if err := call(); err != nil || handled != 2 {
					t.Fatalf("after the wait: %v, %d calls handled", err, handled)
				}
				time.Sleep(2 * time.Second)
				client := tenetgrpc.UnaryClientInterceptor(tenetgrpc.Options{Executor: retry.NewExecutor(options(t, fixed(func(p *policy.Policy) { p.Retry.MaxAttempts = 2 })))})
				start = time.Now()
				err := client(t.Context(), "/s/M", &emptypb.Empty{}, &emptypb.Empty{}, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return call() })
				if waited := time.Since(start); err != nil || waited != 3*time.Second || handled != 3 {
					t.Errorf("the client waited %v, want 3s: %v, %d calls handled", waited, err, handled)
				}
			})
		})
	}
}

func TestR11BusinessCodesKeepTheServersBreakerClosed(t *testing.T) {
	for name, serve := range servers(t.Context()) {
		for code, want := range map[codes.Code]codes.Code{codes.NotFound: codes.OK, codes.Internal: codes.ResourceExhausted} {
			o := tenetgrpc.Options{Executor: retry.NewExecutor(options(t, fixed(func(p *policy.Policy) {
				p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 2}
			})))}
			failed := status.Error(code, "no")
			for range 2 {
				if err := serve(o, func(context.Context) error { return failed }); err != failed {
					t.Errorf("%s: the handler's error became %v", name, err)
				}
			}
			if got := status.Code(serve(o, func(context.Context) error { return nil })); got != want {
				t.Errorf("%s: after two handlers that failed with %s the server answers %s, want %s", name, code, got, want)
			}
		}
	}
}
