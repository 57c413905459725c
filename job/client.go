package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/internal/argument"
)

// Client enqueues jobs. It is safe for concurrent use.
type Client struct {
	store      Store
	maxPayload int
	codec      Codec // nil for none
}

// ClientOption changes a client.
type ClientOption func(*Client)

// WithMaxPayload sets the largest payload in bytes of requests that do not set their own limit, default 1 MiB.
func WithMaxPayload(bytes int) ClientOption { return func(c *Client) { c.maxPayload = bytes } }

// NewClient makes a client of a store. A nil store panics.
func NewClient(store Store, options ...ClientOption) *Client {
	argument.Need(store != nil, "job: NewClient: the store")
	c := &Client{store: store, maxPayload: DefaultMaxPayload}
	for _, o := range options {
		argument.Need(o != nil, "job: NewClient: an option")
		o(c)
	}
	return c
}

// Enqueue stores one job. It returns a *RequestError or *PayloadTooLargeError for a request that cannot be stored; the
// receipt says whether the job is new and how safely it is stored.
func (c *Client) Enqueue(ctx context.Context, r Request) (Receipt, error) {
	receipts, err := c.EnqueueMany(ctx, []Request{r})
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], nil
}

// EnqueueMany stores jobs in one round trip, all or none. The receipts are in the order of the requests.
func (c *Client) EnqueueMany(ctx context.Context, requests []Request) ([]Receipt, error) {
	if ctx == nil {
		return nil, errors.New("job: enqueue: the context is nil")
	}
	list, err := inserts(requests, c.maxPayload)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	for i := range list {
		if err := c.seal(i, &list[i]); err != nil {
			return nil, err
		}
	}
	receipts, err := c.store.Enqueue(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("job: enqueue: %w", err)
	}
	return receipts, nil
}
