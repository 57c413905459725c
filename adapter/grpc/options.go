package tenetgrpc

import (
	"errors"
	"reflect"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Options configure the interceptors. The zero value works.
type Options struct {
	// Executor runs the attempts. Default retry.DefaultExecutor().
	Executor *retry.Executor
	// Key names the operation of a method such as "/pkg.Service/Method". Default [MethodKey].
	Key func(fullMethod string) policy.Key
}

// MethodKey returns the key that documents write as "pkg.Service.Method".
func MethodKey(fullMethod string) policy.Key {
	return policy.ParseKey(strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", "."))
}

func (o Options) withDefaults() Options {
	if o.Key == nil {
		o.Key = MethodKey
	}
	return o
}

// executor is looked up per call, so that interceptors may be made before retry.SetGlobal.
func (o Options) executor() *retry.Executor {
	e := o.Executor
	if e == nil {
		e = retry.DefaultExecutor()
	}
	e.Register(ClassifierName, theClassifier, theClasses)
	return e
}

// callError is a *retry.Error with a gRPC status.
type callError struct {
	err    error
	status *status.Status
}

func (e *callError) Error() string              { return e.err.Error() }
func (e *callError) Unwrap() error              { return e.err }
func (e *callError) GRPCStatus() *status.Status { return e.status }

// withStatus gives a failed call the status of its last attempt or, if there was no attempt, a status for its reason.
func withStatus(err error) error {
	failure, ok := errors.AsType[*retry.Error](err)
	if !ok {
		return err
	}
	if inner, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](failure.Last); ok {
		return &callError{err, inner.GRPCStatus()}
	}
	code := codes.Unknown
	switch failure.Reason {
	case policy.ReasonCanceled:
		code = codes.Canceled
	case policy.ReasonDeadlineExceeded, policy.ReasonOverallTimeout:
		code = codes.DeadlineExceeded
	case policy.ReasonCircuitOpen, policy.ReasonBudgetDenied, policy.ReasonBudgetNotFound:
		code = codes.Unavailable
	case policy.ReasonConcurrencyLimited, policy.ReasonRateLimited:
		code = codes.ResourceExhausted
	}
	return &callError{err, status.New(code, err.Error())}
}

// maker makes empty messages of the type of the caller's message. Attempts must not access the caller's own: a losing hedge
// may still run after the call has returned.
func maker(message any) func() any {
	if m, ok := message.(proto.Message); ok {
		kind := m.ProtoReflect().Type()
		return func() any { return kind.New().Interface() }
	}
	kind := reflect.TypeOf(message).Elem()
	return func() any { return reflect.New(kind).Interface() }
}

// fill makes the caller's message equal to an attempt's.
func fill(message, from any) {
	if m, ok := message.(proto.Message); ok {
		proto.Reset(m)
		proto.Merge(m, from.(proto.Message))
		return
	}
	reflect.ValueOf(message).Elem().Set(reflect.ValueOf(from).Elem())
}
