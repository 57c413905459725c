package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

type recordQuery struct {
	State     idempotency.State `query:"state" enum:"in_flight,completed,failed,released,unknown" doc:"unknown also selects lapsed claims."`
	TenantID  string            `query:"tenant_id" maxLength:"255"`
	Operation string            `query:"operation" maxLength:"255"`
	Cursor    api.Cursor        `query:"cursor" maxLength:"2048"`
	Limit     int               `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type recordName struct {
	TenantID  string `query:"tenant_id" maxLength:"255"`
	Operation string `query:"operation" maxLength:"255"`
	Key       string `query:"key" required:"true" minLength:"1" maxLength:"255"`
	Result    bool   `query:"result" doc:"Return the stored result too; needs the scope operate."`
}

type recordAnswer struct {
	ETag string `header:"ETag" doc:"The entity tag of the claim, for If-Match."`
	Body api.Record
}

type matching[B any] struct {
	IfMatch string `header:"If-Match" hidden:"true"`
	Body    B
}

func (s *Server) recordRoutes() {
	read := group{tag: "Idempotency", scope: policystore.ScopeRead, unbound: true}
	operate := group{tag: "Idempotency", scope: policystore.ScopeOperate, once: keyed, unbound: true}
	matching := group{tag: "Idempotency", scope: policystore.ScopeOperate, once: condition, unbound: true}
	register(s, read.route(http.MethodGet, "/v1/idempotency", "list-records", "List idempotency records without their results"), s.listRecords)
	register(s, read.route(http.MethodGet, "/v1/idempotency/record", "get-record", "Show the record of a key"), s.getRecord)
	register(s, matching.route(http.MethodPost, "/v1/idempotency/resolve", "resolve-record", "Set the outcome of an effect whose outcome is unknown"), s.resolveRecord)
	register(s, matching.route(http.MethodPost, "/v1/idempotency/clear", "clear-record", "Remove a record, so that its effect can run again"), s.clearRecord)
	register(s, operate.route(http.MethodPost, "/v1/idempotency/expire", "expire-records", "Remove expired records"), s.expireRecords)
}

var recordList = listing[idempotency.ID, idempotency.Record]{api.RecordCursor, func(r idempotency.Record) idempotency.ID { return r.ID }}

func (s *Server) listRecords(ctx context.Context, in *recordQuery) (*answer[api.RecordPage], error) {
	f := idempotency.Filter{State: in.State, Tenant: in.TenantID, Operation: in.Operation}
	list, next, err := recordList.page(ctx, PageQuery{in.Cursor, in.Limit}, func(ctx context.Context, after idempotency.ID, limit int) ([]idempotency.Record, error) {
		return s.options.Records.List(ctx, f, after, limit)
	})
	shown := func(r idempotency.Record) api.Record { return api.NewRecord(&r, time.Now()) }
	return answers(api.RecordPage{Records: lists.Map(list, shown), Next: next}, err)
}

// record returns the record of a key to a caller that may see it.
func (s *Server) recordOf(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	for field, value := range map[string]string{"tenant_id": id.Tenant, "operation": id.Operation, "key": id.Key} {
		if err := idempotency.CheckKey(value); err != nil && (value != "" || field == "key") {
			return idempotency.Record{}, fmt.Errorf("%w: %s: %w", errInvalid, field, err)
		}
	}
	return s.options.Records.Get(ctx, id)
}

func (s *Server) getRecord(ctx context.Context, in *recordName) (*recordAnswer, error) {
	if _, err := shown(callerOf(ctx), in.Result); err != nil {
		return nil, err
	}
	r, err := s.recordOf(ctx, idempotency.ID{Tenant: in.TenantID, Operation: in.Operation, Key: in.Key})
	if err != nil {
		return nil, err
	}
	out := &recordAnswer{api.ClaimTag(r.Claim()), api.NewRecord(&r, time.Now())}
	if in.Result {
		out.Body.Result = r.Result
	}
	return out, nil
}

// claimed returns the record of a key if it is under the claim that the caller has seen.
func (s *Server) claimed(ctx context.Context, id api.RecordID, tag string) (idempotency.Record, error) {
	r, err := s.recordOf(ctx, id.ID())
	if err == nil && strong(tag) != api.ClaimTag(r.Claim()) {
		err = idempotency.ErrFenced
	}
	return r, err
}

// changeRecord puts a change on record, makes it, and puts on record too that it came too late, if it did.
func (s *Server) changeRecord(ctx context.Context, o audit.Operation, change func() error) error {
	if err := s.record(ctx, o); err != nil {
		return err
	}
	err := change()
	if errors.Is(err, idempotency.ErrFenced) {
		err = errors.Join(err, s.record(ctx, operation.Refused(o, operation.FencedRecord)))
	}
	return err
}

func (s *Server) resolveRecord(ctx context.Context, in *matching[api.Resolution]) (*recordAnswer, error) {
	settlement := idempotency.Settlement{
		State: in.Body.State, HasResult: in.Body.HasResult, Result: in.Body.Result, Failure: in.Body.Failure, TTL: api.Duration(in.Body.TTL),
	}
	if err := settlement.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	r, err := s.claimed(ctx, in.Body.RecordID, in.IfMatch)
	if err != nil {
		return nil, err
	}
	o := operation.OnRecord("idempotency.resolve", r)
	o.To = string(settlement.State)
	if err := s.changeRecord(ctx, o, func() error { return s.options.Records.Resolve(ctx, r.Claim(), settlement) }); err != nil {
		return nil, err
	}
	if r, err = s.options.Records.Get(ctx, r.ID); err != nil {
		return nil, err
	}
	return &recordAnswer{api.ClaimTag(r.Claim()), api.NewRecord(&r, time.Now())}, nil
}

func (s *Server) clearRecord(ctx context.Context, in *matching[api.RecordID]) (*struct{}, error) {
	r, err := s.claimed(ctx, in.Body, in.IfMatch)
	if err != nil {
		return nil, err
	}
	o := operation.OnRecord("idempotency.clear", r)
	return nil, s.changeRecord(ctx, o, func() error { return s.options.Records.Clear(ctx, r.Claim()) })
}

func (s *Server) expireRecords(ctx context.Context, in *bodyOf[api.Expire]) (*answer[api.Expired], error) {
	o := audit.Operation{Action: "idempotency.expire", Attributes: map[string]string{"limit": strconv.Itoa(in.Body.Limit)}}
	if err := s.record(ctx, o); err != nil {
		return nil, err
	}
	n, err := s.options.Records.Expire(ctx, in.Body.Limit)
	return answers(api.Expired{Removed: n}, err)
}
