package tenetnats

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// ClassifierName is the name under which policies refer to [Classifier].
const ClassifierName = "nats"

// Classifier classifies the errors of operations that use package nats or jetstream without a [Client]; see the table in the
// package documentation.
func Classifier() classify.Classifier {
	return classify.Func(func(value any, err error) classify.Outcome {
		if err == nil {
			return classify.Default(value, nil)
		}
		o := classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: classOf(err), Reason: policy.ReasonError}
		switch verdictOf(err) {
		case answered:
			o.Kind, o.Category = classify.NonRetryable, classify.CategoryBusiness
		case hopeless:
			o.Kind = classify.NonRetryable
		case worthRepeating:
			if o.Class == policy.ClassNATSTimeout || errors.Is(err, context.DeadlineExceeded) {
				o.Category = classify.CategoryTimeout
			}
		}
		return o
	})
}

// marked marks the error with its verdict.
func marked(err error) error {
	switch {
	case err == nil:
		return nil
	case verdictOf(err) == answered:
		return classify.Business(err)
	case verdictOf(err) == hopeless:
		return classify.Permanent(err)
	}
	return err
}

type verdict int

const (
	worthRepeating verdict = iota
	hopeless               // a repetition would fail in the same way
	answered               // the server is well and refuses
)

func verdictOf(err error) verdict {
	is := func(target error) bool { return errors.Is(err, target) }
	if slices.ContainsFunc([]error{
		jetstream.ErrKeyNotFound, jetstream.ErrKeyDeleted, jetstream.ErrKeyExists, jetstream.ErrKeyRevisionMismatch,
		jetstream.ErrMsgNotFound, jetstream.ErrNoMessages, jetstream.ErrNoKeysFound,
	}, is) {
		return answered
	}
	if slices.ContainsFunc([]error{
		nats.ErrBadSubject, nats.ErrBadQueueName, nats.ErrBadSubscription, nats.ErrInvalidMsg, nats.ErrInvalidArg, nats.ErrMaxPayload,
		nats.ErrHeadersNotSupported, nats.ErrBadHeaderMsg, nats.ErrConnectionClosed, nats.ErrConnectionDraining, nats.ErrInvalidConnection,
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired, nats.ErrPermissionViolation,
		nats.ErrNkeysNotSupported, nats.ErrNkeyButNoSigCB, nats.ErrNoUserCB, nats.ErrSecureConnRequired, nats.ErrSecureConnWanted,
		jetstream.ErrInvalidKey, jetstream.ErrInvalidBucketName, jetstream.ErrBucketNotFound, jetstream.ErrBucketExists,
		jetstream.ErrBadBucket, jetstream.ErrHistoryTooLarge, jetstream.ErrLimitMarkerTTLNotSupported, jetstream.ErrInvalidStreamName,
		jetstream.ErrStreamNameRequired, jetstream.ErrInvalidSubject, jetstream.ErrInvalidConsumerName, jetstream.ErrInvalidOption,
		jetstream.ErrJetStreamNotEnabledForAccount,
	}, is) {
		return hopeless
	}
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch {
		case e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence, e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return answered
		case e.Code >= 400 && e.Code < 500 && e.Code != 408 && e.Code != 429:
			return hopeless
		}
	}
	return worthRepeating
}

// The classifier that clients register with their executors, and its classes.
var (
	theClassifier = Classifier()
	theClasses    = Classes()
)

// Classes returns the family of classes nats_no_responders, nats_timeout and nats_connection within nats, for
// retry.ExecutorOptions.Classes. Every error of this package's operations is at least of class nats.
func Classes() classify.Family {
	return classify.Family{
		Names: []policy.Class{policy.ClassNATS, policy.ClassNATSNoResponders, policy.ClassNATSTimeout, policy.ClassNATSConnection},
		Of:    classOf,
	}
}

func classOf(err error) policy.Class {
	is := func(target error) bool { return errors.Is(err, target) }
	op, own := errors.AsType[*opError](err)
	switch {
	case is(nats.ErrNoResponders), is(jetstream.ErrNoStreamResponse),
		is(jetstream.ErrJetStreamNotEnabled): // package jetstream replaces one by the other
		return policy.ClassNATSNoResponders
	case slices.ContainsFunc([]error{
		nats.ErrNoServers, nats.ErrDisconnected, nats.ErrConnectionClosed, nats.ErrConnectionDraining, nats.ErrConnectionReconnecting,
		nats.ErrReconnectBufExceeded, nats.ErrStaleConnection,
	}, is), own && op.category == policy.NATSConnect && verdictOf(err) == worthRepeating:
		return policy.ClassNATSConnection
	case is(nats.ErrTimeout), own && is(context.DeadlineExceeded):
		return policy.ClassNATSTimeout
	case own, is(nats.ErrMaxPayload), is(nats.ErrBadSubject), is(nats.ErrAuthorization), is(nats.ErrPermissionViolation):
		return policy.ClassNATS
	}
	if _, ok := errors.AsType[jetstream.JetStreamError](err); ok {
		return policy.ClassNATS
	}
	return ""
}
