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

	tenetgrpc "github.com/tenetdev/tenet/adapter/grpc"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

type emptyStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s emptyStream) Context() context.Context { return s.ctx }

func TestB4AServerShedsWithResourceExhausted(t *testing.T) {
	const method = "/s/M"
	for name, serve := range map[string]func(o tenetgrpc.Options, handler func(context.Context) error) error{
		"unary": func(o tenetgrpc.Options, handler func(context.Context) error) error {
			_, err := tenetgrpc.UnaryServerInterceptor(o)(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method},
				func(ctx context.Context, _ any) (any, error) { return nil, handler(ctx) })
			return err
		},
		"stream": func(o tenetgrpc.Options, handler func(context.Context) error) error {
			return tenetgrpc.StreamServerInterceptor(o)(nil, emptyStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: method},
				func(_ any, s grpc.ServerStream) error { return handler(s.Context()) })
		},
	} {
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
