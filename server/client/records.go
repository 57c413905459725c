package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

// Records are the idempotency records of a server, for operators. A server hands out no claims, so that Begin, Renew and
// Settle fail.
type Records struct{ client *Client }

var (
	_ idempotency.Store = (*Records)(nil)
	_ idempotency.Admin = (*Records)(nil)
)

var errClaims = fmt.Errorf("client: a server hands out no claims; programs open its store: %w", errors.ErrUnsupported)

func asRecord(err error) error {
	return as(err, map[string]error{api.ProblemNotFound: idempotency.ErrNotFound, api.ProblemChanged: idempotency.ErrFenced})
}

// asChange is asRecord, for changes of a record: to stores, one that is gone is under another claim.
func asChange(err error) error {
	return as(err, map[string]error{api.ProblemNotFound: idempotency.ErrFenced, api.ProblemChanged: idempotency.ErrFenced})
}

// Begin fails: programs open the store.
func (r *Records) Begin(context.Context, idempotency.BeginRequest) (idempotency.Begun, error) {
	return idempotency.Begun{}, errClaims
}

// Renew fails: programs open the store.
func (r *Records) Renew(context.Context, idempotency.Claim, time.Duration) error { return errClaims }

// Settle fails: programs open the store.
func (r *Records) Settle(context.Context, idempotency.Claim, idempotency.Settlement) error {
	return errClaims
}

// Get implements idempotency.Store. Without Options.Secrets the result is left out: then its bytes are zeros.
func (r *Records) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	query := params.Of("key", id.Key, "tenant_id", id.Tenant, "operation", id.Operation)
	if r.client.options.Secrets {
		query.Set("result", "true")
	}
	var out api.Record
	if err := r.client.Do(ctx, Call{Method: http.MethodGet, Path: "/v1/idempotency/record", Query: query}, &out); err != nil {
		return idempotency.Record{}, asRecord(err)
	}
	record := out.Record()
	if record.HasResult && len(record.Result) == 0 {
		record.Result = make([]byte, out.ResultBytes)
	}
	return record, nil
}

// List implements idempotency.Admin.
func (r *Records) List(ctx context.Context, f idempotency.Filter, after idempotency.ID, limit int) ([]idempotency.Record, error) {
	if limit < 1 {
		return nil, nil
	}
	query := params.Of("limit", strconv.Itoa(min(limit, api.MaxBatch)), "state", string(f.State), "tenant_id", f.Tenant, "operation", f.Operation)
	if after != (idempotency.ID{}) {
		query.Set("cursor", string(api.NewCursor(api.RecordCursor, after)))
	}
	var page api.RecordPage
	if err := r.client.Do(ctx, Call{Method: http.MethodGet, Path: "/v1/idempotency", Query: query}, &page); err != nil {
		return nil, asRecord(err)
	}
	return lists.Map(page.Records, func(r api.Record) idempotency.Record { return r.Record() }), nil
}

func nameOf(id idempotency.ID) api.RecordID {
	return api.RecordID{TenantID: id.Tenant, Operation: id.Operation, Key: id.Key}
}

// Resolve implements idempotency.Admin.
func (r *Records) Resolve(ctx context.Context, c idempotency.Claim, s idempotency.Settlement) error {
	body := api.Resolution{RecordID: nameOf(c.ID), State: s.State, HasResult: s.HasResult, Result: s.Result, Failure: s.Failure, TTL: s.TTL.Seconds()}
	return asChange(r.client.Do(ctx, Call{Method: http.MethodPost, Path: "/v1/idempotency/resolve", Body: body, IfMatch: api.ClaimTag(c)}, nil))
}

// Clear implements idempotency.Admin.
func (r *Records) Clear(ctx context.Context, c idempotency.Claim) error {
	return asChange(r.client.Do(ctx, Call{Method: http.MethodPost, Path: "/v1/idempotency/clear", Body: nameOf(c.ID), IfMatch: api.ClaimTag(c)}, nil))
}

// Expire implements idempotency.Admin.
func (r *Records) Expire(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, nil
	}
	out, err := ask[api.Expired](ctx, r.client, Call{Method: http.MethodPost, Path: "/v1/idempotency/expire", Body: api.Expire{Limit: min(limit, 10_000)}, Once: true}, asRecord)
	return out.Removed, err
}
