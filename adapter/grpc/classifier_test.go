package tenetgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	tenetgrpc "github.com/tenetdev/tenet/adapter/grpc"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// retryInfo is a status with a RetryInfo detail.
func retryInfo(t *testing.T, c codes.Code, wait time.Duration) error {
	t.Helper()
	s, err := status.New(c, "wait").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

// table is the table of codes in the package documentation.
var table = map[codes.Code]struct {
	kind     classify.Kind
	category classify.Category
	class    policy.Class
}{
	codes.Canceled:           {classify.NonRetryable, classify.CategorySystem, "grpc_canceled"},
	codes.Unknown:            {classify.NonRetryable, classify.CategorySystem, "grpc_unknown"},
	codes.InvalidArgument:    {classify.NonRetryable, classify.CategoryBusiness, "grpc_invalid_argument"},
	codes.DeadlineExceeded:   {classify.Retryable, classify.CategoryTimeout, "grpc_deadline_exceeded"},
	codes.NotFound:           {classify.NonRetryable, classify.CategoryBusiness, "grpc_not_found"},
	codes.AlreadyExists:      {classify.NonRetryable, classify.CategoryBusiness, "grpc_already_exists"},
	codes.PermissionDenied:   {classify.NonRetryable, classify.CategoryBusiness, "grpc_permission_denied"},
	codes.ResourceExhausted:  {classify.Retryable, classify.CategorySystem, "grpc_resource_exhausted"},
	codes.FailedPrecondition: {classify.NonRetryable, classify.CategoryBusiness, "grpc_failed_precondition"},
	codes.Aborted:            {classify.Retryable, classify.CategorySystem, "grpc_aborted"},
	codes.OutOfRange:         {classify.NonRetryable, classify.CategoryBusiness, "grpc_out_of_range"},
	codes.Unimplemented:      {classify.NonRetryable, classify.CategoryBusiness, "grpc_unimplemented"},
	codes.Internal:           {classify.NonRetryable, classify.CategorySystem, "grpc_internal"},
	codes.Unavailable:        {classify.Retryable, classify.CategorySystem, "grpc_unavailable"},
	codes.DataLoss:           {classify.NonRetryable, classify.CategorySystem, "grpc_data_loss"},
	codes.Unauthenticated:    {classify.NonRetryable, classify.CategoryBusiness, "grpc_unauthenticated"},
}

func TestCodesClassifier(t *testing.T) {
	if len(table) != int(codes.Unauthenticated) {
		t.Fatalf("the table has %d codes", len(table))
	}
	for code, row := range table {
		t.Run(code.String(), func(t *testing.T) {
			err := fmt.Errorf("users: %w", status.Error(code, "text"))
			want := classify.Outcome{Kind: row.kind, Category: row.category, Class: row.class, Reason: policy.ReasonGRPCStatus}
			if diff := cmp.Diff(want, tenetgrpc.Classifier().Classify("any value", err)); diff != "" {
				t.Error(diff)
			}
		})
	}
	others := map[string]struct {
		err  error
		want classify.Outcome
	}{
		"success":                   {nil, classify.Outcome{Reason: policy.ReasonSuccess}},
		"a plain error":             {errors.New("odd"), classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem, Class: "grpc_unknown", Reason: policy.ReasonGRPCStatus}},
		"a timeout":                 {context.DeadlineExceeded, classify.Outcome{Kind: classify.Retryable, Category: classify.CategoryTimeout, Class: "grpc_deadline_exceeded", Reason: policy.ReasonGRPCStatus}},
		"a cancel":                  {context.Canceled, classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem, Class: "grpc_canceled", Reason: policy.ReasonGRPCStatus}},
		"RetryInfo":                 {retryInfo(t, codes.ResourceExhausted, 3*time.Second), classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: "grpc_resource_exhausted", Reason: policy.ReasonGRPCStatus, Pushback: 3 * time.Second}},
		"RetryInfo on a final code": {retryInfo(t, codes.NotFound, 3*time.Second), classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryBusiness, Class: "grpc_not_found", Reason: policy.ReasonGRPCStatus}},
	}
	for name, tt := range others {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tenetgrpc.Classifier().Classify(nil, tt.err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestC4Classes(t *testing.T) {
	set := classify.Set{tenetgrpc.Classes()}
	for code, row := range table {
		matches := set.Of(fmt.Errorf("users: %w", status.Error(code, "text")))
		if len(matches) != 1 || !matches[0].Within(row.class) || !matches[0].Within(policy.ClassGRPC) {
			t.Errorf("classes of code %s: %v", code, matches)
		}
		if !set.Has(row.class) || !row.class.Known() {
			t.Errorf("%s has no matcher or cannot be named in a document", row.class)
		}
	}
	if got := set.Of(errors.New("x")); got != nil || !set.Has(policy.ClassGRPC) {
		t.Errorf("classes of another error: %v", got)
	}
}
