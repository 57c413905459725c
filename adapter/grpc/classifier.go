package tenetgrpc

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// ClassifierName is the name under which policies refer to [Classifier].
const ClassifierName = "grpc"

// Classifier judges results by the gRPC status in their error, as the table of the package says; messages play no part.
// DeadlineExceeded counts as the attempt's own timeout: the end of the caller's context is judged before any classifier.
func Classifier() classify.Classifier {
	return classify.Func(func(_ any, err error) classify.Outcome { return judge(err) })
}

func judge(err error) classify.Outcome {
	if err == nil {
		return classify.Default(nil, nil)
	}
	code := codeOf(err)
	o := classify.Outcome{
		Kind: classify.NonRetryable, Category: classify.CategorySystem, Class: classes[code], Reason: policy.ReasonGRPCStatus,
	}
	switch code {
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		o.Kind, o.Pushback = classify.Retryable, retryInfo(err)
	case codes.DeadlineExceeded:
		o.Kind, o.Category, o.Pushback = classify.Retryable, classify.CategoryTimeout, retryInfo(err)
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		o.Category = classify.CategoryBusiness
	}
	return o
}

// mark gives an attempt's error the meaning that it has without any classifier. timedOut is whether the attempt's context
// is over.
func mark(err error, trailer metadata.MD, timedOut bool) error {
	o := judge(err)
	switch {
	case o.Category == classify.CategoryBusiness:
		return classify.Business(err)
	case o.Kind != classify.Retryable, o.Category == classify.CategoryTimeout && !timedOut:
		return classify.Permanent(err)
	}
	asked, forbidden := pushback(trailer)
	if forbidden {
		return classify.Permanent(err)
	}
	if wait := max(asked, o.Pushback); wait > 0 {
		return classify.After(err, wait)
	}
	return err
}

// codeOf is the code of the status in err. A context's error, which some interceptors return as it is, has one, too.
func codeOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return codes.Unknown
}

// retryInfo is the wait that a google.rpc.RetryInfo in the status asks for.
func retryInfo(err error) time.Duration {
	s, _ := status.FromError(err)
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return max(info.GetRetryDelay().AsDuration(), 0)
		}
	}
	return 0
}

// pushback reads the trailer grpc-retry-pushback-ms of gRFC A6.
func pushback(trailer metadata.MD) (wait time.Duration, forbidden bool) {
	values := trailer.Get("grpc-retry-pushback-ms")
	if len(values) == 0 {
		return 0, false
	}
	ms, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || ms < 0 || len(values) > 1 {
		return 0, true
	}
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64, false
	}
	return time.Duration(ms) * time.Millisecond, false
}

var classes = map[codes.Code]policy.Class{
	codes.Canceled: "grpc_canceled", codes.Unknown: "grpc_unknown", codes.InvalidArgument: "grpc_invalid_argument",
	codes.DeadlineExceeded: "grpc_deadline_exceeded", codes.NotFound: "grpc_not_found", codes.AlreadyExists: "grpc_already_exists",
	codes.PermissionDenied: "grpc_permission_denied", codes.ResourceExhausted: "grpc_resource_exhausted",
	codes.FailedPrecondition: "grpc_failed_precondition", codes.Aborted: "grpc_aborted", codes.OutOfRange: "grpc_out_of_range",
	codes.Unimplemented: "grpc_unimplemented", codes.Internal: "grpc_internal", codes.Unavailable: "grpc_unavailable",
	codes.DataLoss: "grpc_data_loss", codes.Unauthenticated: "grpc_unauthenticated",
}

// The classifier that the interceptors register with their executors, and its classes.
var (
	theClassifier = Classifier()
	theClasses    = Classes()
)

// Classes returns the family of status codes, grpc_unavailable and so on within grpc, for retry.ExecutorOptions.Classes.
// Errors without a gRPC status have none.
func Classes() classify.Family {
	names := []policy.Class{policy.ClassGRPC}
	for _, c := range classes {
		names = append(names, c)
	}
	return classify.Family{Names: names, Of: func(err error) policy.Class {
		s, ok := status.FromError(err)
		if !ok {
			return ""
		}
		return classes[s.Code()]
	}}
}
