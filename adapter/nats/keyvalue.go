package tenetnats

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// CreateStream creates a stream (nats.StreamCreate, NATS_STREAM_CREATE). An existing stream of the same configuration is not
// an error, so that the call can be repeated; one that differs is jetstream.ErrStreamNameAlreadyInUse and is not retried.
func (c *Client) CreateStream(ctx context.Context, config jetstream.StreamConfig, call ...retry.CallOption) (jetstream.Stream, error) {
	return do(ctx, c, operation{policy.NATSStreamCreate, "StreamCreate", config.Name, call}, func(ctx context.Context) (jetstream.Stream, error) {
		return c.JetStream.CreateStream(ctx, config)
	})
}

// Bucket is a key-value bucket whose operations run under policies. It is safe for concurrent use.
type Bucket struct {
	// KeyValue is the bucket itself, for everything else.
	KeyValue jetstream.KeyValue
	client   *Client
}

// CreateBucket creates a key-value bucket (nats.KVCreate, KV_CREATE). As with streams, an existing one of the same
// configuration is not an error, and one that differs is jetstream.ErrBucketExists.
func (c *Client) CreateBucket(ctx context.Context, config jetstream.KeyValueConfig, call ...retry.CallOption) (*Bucket, error) {
	kv, err := do(ctx, c, operation{policy.KVCreate, "KVCreate", config.Bucket, call}, func(ctx context.Context) (jetstream.KeyValue, error) {
		return c.JetStream.CreateKeyValue(ctx, config)
	})
	if err != nil {
		return nil, err
	}
	return c.Bucket(kv), nil
}

// Bucket returns a client of an existing bucket. A nil bucket panics.
func (c *Client) Bucket(kv jetstream.KeyValue) *Bucket {
	argument.Need(kv != nil, "tenetnats: Bucket: the bucket")
	return &Bucket{KeyValue: kv, client: c}
}

// Get returns the latest value of a key (nats.KVGet, KV_GET). jetstream.ErrKeyNotFound is a business outcome: it is not
// retried, and no breaker counts it.
func (b *Bucket) Get(ctx context.Context, key string, call ...retry.CallOption) (jetstream.KeyValueEntry, error) {
	return do(ctx, b.client, b.on(key, operation{category: policy.KVGet, name: "KVGet", call: call}), func(ctx context.Context) (jetstream.KeyValueEntry, error) {
		return b.KeyValue.Get(ctx, key)
	})
}

// Put sets the value of a key, whatever it was, and returns its revision (nats.KVPut, KV_PUT). The last put wins: a put
// that is repeated because its acknowledgement was lost may undo a later put of another client. If this matters, use
// KeyValue.Update in an operation of your own, which compares revisions.
func (b *Bucket) Put(ctx context.Context, key string, value []byte, call ...retry.CallOption) (uint64, error) {
	return do(ctx, b.client, b.on(key, operation{category: policy.KVPut, name: "KVPut", call: call}), func(ctx context.Context) (uint64, error) {
		return b.KeyValue.Put(ctx, key, value)
	})
}

// Delete removes a key (nats.KVDelete, KV_DELETE). A missing key is not an error. As with [Bucket.Put], a repetition may
// undo a concurrent write.
func (b *Bucket) Delete(ctx context.Context, key string, call ...retry.CallOption) error {
	_, err := do(ctx, b.client, b.on(key, operation{category: policy.KVDelete, name: "KVDelete", call: call}), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.KeyValue.Delete(ctx, key)
	})
	return err
}

// on returns o as an operation on a key of the bucket.
func (b *Bucket) on(key string, o operation) operation {
	o.subject = b.KeyValue.Bucket() + "/" + key
	return o
}
