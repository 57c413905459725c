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
}

// ClientOption changes a client.
type ClientOption func(*Client)

// WithMaxPayload sets the largest payload in bytes, default 1 MiB.
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
	inserts, err := c.Inserts(requests)
	if err != nil || len(inserts) == 0 {
		return nil, err
	}
	receipts, err := c.store.Enqueue(ctx, inserts)
	if err != nil {
		return nil, fmt.Errorf("job: enqueue: %w", err)
	}
	return receipts, nil
}

// Inserts checks requests and prepares them for a store's own methods, such as EnqueueTx inside the caller's transaction.
func (c *Client) Inserts(requests []Request) ([]Insert, error) {
	inserts := make([]Insert, len(requests))
	for i, r := range requests {
		in, err := r.insert(i, c.maxPayload)
		if err != nil {
			return nil, err
		}
		inserts[i] = in
	}
	return inserts, nil
}
