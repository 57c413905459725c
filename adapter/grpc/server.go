package tenetgrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/retry"
)

// minRetryDelay is the shortest wait that a refused call is asked for, for refusals that do not know when there is a place.
const minRetryDelay = time.Second

// UnaryServerInterceptor admits calls to a server under the limit, the breaker and the budget of their key's policy. A refused
// call gets the status ResourceExhausted with a google.rpc.RetryInfo of at least a second; its handler does not run.
//
// A call is one attempt, whatever the policy says: the handler is neither repeated nor hedged. The policy's timeouts end the
// handler's context, and with max_wait a call waits in line. The handler's own error is returned unchanged, and a panic
// reaches the server unchanged. Codes of business outcomes, such as NotFound, do not count as failures. A server that is also a
// client under the same method names should give the two different keys. Safe for concurrent use.
func UnaryServerInterceptor(o Options) grpc.UnaryServerInterceptor {
	o = o.withDefaults()
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		var failed error
		value, err := retry.DoValue(ctx, o.executor(), o.Key(info.FullMethod), func(ctx context.Context) (value any, _ error) {
			value, failed = handler(ctx, req)
			return value, meant(failed)
		}, retry.WithSingleAttempt())
		return value, served(err, failed)
	}
}

// StreamServerInterceptor is [UnaryServerInterceptor] for streams. A stream holds its place until its handler returns.
func StreamServerInterceptor(o Options) grpc.StreamServerInterceptor {
	o = o.withDefaults()
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		var failed error
		err := o.executor().Do(stream.Context(), o.Key(info.FullMethod), func(ctx context.Context) error {
			failed = handler(server, &servedStream{stream, ctx})
			return meant(failed)
		}, retry.WithSingleAttempt())
		return served(err, failed)
	}
}

// servedStream is a stream under the context of its attempt.
type servedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *servedStream) Context() context.Context { return s.ctx }

// meant marks a handler's error if its code is a business outcome.
func meant(err error) error {
	if judge(err).Category == classify.CategoryBusiness {
		return classify.Business(err)
	}
	return err
}

// served returns the error of a handler that failed, or the status of a call that was refused.
func served(err, failed error) error {
	failure, ok := errors.AsType[*retry.Error](err)
	switch {
	case !ok:
		return err
	case failed != nil:
		return failed
	case failure.Attempts > 0:
		return withStatus(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return withStatus(err)
	}
	refused := status.New(codes.ResourceExhausted, "refused: "+string(failure.Reason))
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(max(failure.RetryAfter, minRetryDelay))}
	if detailed, err := refused.WithDetails(wait); err == nil {
		refused = detailed
	}
	return refused.Err()
}
