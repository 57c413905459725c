package natspolicy

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policy"
)

// Document is a controlplane.DocumentStore on a bucket. Create it with [New], and give it to one controlplane.NewStored.
type Document struct {
	bucket jetstream.KeyValue
	name   string
	trust  *protocol.Trust
}

// New makes a store of a document. keys are the public keys of the Tenet server; without keys the first key seen is trusted
// until the program ends. A nil bucket panics.
func New(bucket jetstream.KeyValue, name string, keys ...ed25519.PublicKey) (*Document, error) {
	argument.Need(bucket != nil, "natspolicy: New: the bucket")
	if err := protocol.CheckName(name); err != nil {
		return nil, fmt.Errorf("natspolicy: %w", err)
	}
	return &Document{bucket: bucket, name: name, trust: protocol.NewTrust(name, keys...)}, nil
}

// Load implements controlplane.DocumentStore.
func (d *Document) Load(ctx context.Context) (data []byte, revision string, err error) {
	entry, err := d.bucket.Get(ctx, d.name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, "", fmt.Errorf("%w: bucket %s has no document %s", policy.ErrPolicyNotFound, d.bucket.Bucket(), d.name)
	}
	if err != nil {
		return nil, "", err
	}
	e, err := protocol.ReadEnvelope(entry.Value())
	if err == nil {
		err = d.trust.Accept(e)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: bucket %s: %w", policy.ErrPolicyFetchFailed, d.bucket.Bucket(), err)
	}
	return []byte(e.Body), strconv.FormatInt(e.Revision, 10), nil
}

// Watch implements controlplane.DocumentStore.
func (d *Document) Watch(ctx context.Context) (<-chan struct{}, error) {
	watcher, err := d.bucket.Watch(ctx, d.name, jetstream.UpdatesOnly())
	if err != nil {
		return nil, err
	}
	changes := wait.NewSignal()
	go func() { // ends with ctx, or with the connection
		defer close(changes)
		defer func() { _ = watcher.Stop() }()
		for {
			select {
			case _, open := <-watcher.Updates():
				if !open {
					return
				}
			case <-ctx.Done():
				return
			}
			changes.Send()
		}
	}()
	return changes, nil
}

// The bounds of the waits of Put between attempts.
const (
	firstWait = 5 * time.Millisecond
	mostWait  = time.Second
)

// Put writes an envelope under the name of its document. It never replaces a newer revision: that is protocol.ErrOlder. While
// other writers come first it tries again, with growing waits, until ctx ends.
func Put(ctx context.Context, bucket jetstream.KeyValue, e *protocol.Envelope) error {
	value, err := e.Encode()
	if err != nil {
		return err
	}
	backoff := wait.Backoff{Min: firstWait, Max: mostWait}
	for err = put(ctx, bucket, e, value); isConflict(err); err = put(ctx, bucket, e, value) {
		if ended := backoff.Wait(ctx); ended != nil {
			return wrap(ended)
		}
	}
	return wrap(err)
}

// put tries once.
func put(ctx context.Context, bucket jetstream.KeyValue, e *protocol.Envelope, value []byte) error {
	entry, err := bucket.Get(ctx, e.Document)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		_, err = bucket.Create(ctx, e.Document, value)
		return err
	}
	if err != nil {
		return err
	}
	if old, err := protocol.ReadEnvelope(entry.Value()); err == nil && old.Revision > e.Revision {
		return fmt.Errorf("%w: %d after %d", protocol.ErrOlder, e.Revision, old.Revision)
	}
	if string(entry.Value()) == string(value) {
		return nil
	}
	_, err = bucket.Update(ctx, e.Document, value, entry.Revision())
	return err
}

// isConflict reports whether another write came first. Single and replicated streams have different codes for it.
func isConflict(err error) bool {
	if errors.Is(err, jetstream.ErrKeyExists) {
		return true
	}
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("natspolicy: %w", err)
	}
	return nil
}
