package tenetnats_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	tenetnats "github.com/tenetdev/tenet/adapter/nats"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

func api(code int, number jetstream.ErrorCode) error {
	return &jetstream.APIError{Code: code, ErrorCode: number}
}

func TestC4ErrorsHaveTheirClassAndMeaning(t *testing.T) {
	const (
		retryable = classify.Retryable
		no        = classify.NonRetryable
		system    = classify.CategorySystem
		business  = classify.CategoryBusiness
	)
	for _, c := range []struct {
		err      error
		kind     classify.Kind
		category classify.Category
		class    policy.Class
	}{
		{nil, classify.Success, classify.CategoryNone, ""},
		{nats.ErrNoResponders, retryable, system, policy.ClassNATSNoResponders},
		{jetstream.ErrNoStreamResponse, retryable, system, policy.ClassNATSNoResponders},
		{jetstream.ErrJetStreamNotEnabled, retryable, system, policy.ClassNATSNoResponders},
		{nats.ErrTimeout, retryable, classify.CategoryTimeout, policy.ClassNATSTimeout},
		{context.DeadlineExceeded, retryable, classify.CategoryTimeout, ""}, // not an error of NATS
		{nats.ErrNoServers, retryable, system, policy.ClassNATSConnection},
		{nats.ErrDisconnected, retryable, system, policy.ClassNATSConnection},
		{nats.ErrReconnectBufExceeded, retryable, system, policy.ClassNATSConnection},
		{nats.ErrConnectionClosed, no, system, policy.ClassNATSConnection},
		{nats.ErrAuthorization, no, system, policy.ClassNATS},
		{nats.ErrMaxPayload, no, system, policy.ClassNATS},
		{jetstream.ErrBucketNotFound, no, system, policy.ClassNATS},
		{jetstream.ErrStreamNotFound, no, system, policy.ClassNATS},
		{jetstream.ErrKeyNotFound, no, business, policy.ClassNATS},
		{jetstream.ErrKeyExists, no, business, policy.ClassNATS},
		{api(400, jetstream.JSErrCodeStreamWrongLastSequence), no, business, policy.ClassNATS},
		{api(400, jetstream.JSErrCodeStreamWrongLastSequenceConstant), no, business, policy.ClassNATS},
		{api(400, 10025), no, system, policy.ClassNATS},
		{api(429, 10210), retryable, system, policy.ClassNATS},
		{api(503, 10008), retryable, system, policy.ClassNATS},
		{errors.New("anything else"), retryable, system, ""},
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			err := c.err
			if err != nil {
				err = fmt.Errorf("outside: %w", err)
			}
			o := tenetnats.Classifier().Classify(nil, err)
			o.Reason = ""
			want := classify.Outcome{Kind: c.kind, Category: c.category, Class: c.class}
			if diff := cmp.Diff(want, o); diff != "" {
				t.Error(diff)
			}
			if err != nil {
				if got := tenetnats.Classes().Of(err); got != c.class {
					t.Errorf("class %q, want %q", got, c.class)
				}
			}
		})
	}
}

func TestC4FamilyIsKnownToDocuments(t *testing.T) {
	for _, name := range tenetnats.Classes().Names {
		if !name.Known() || !name.Within(policy.ClassNATS) {
			t.Errorf("class %s is not one of policy's within nats", name)
		}
	}
}
