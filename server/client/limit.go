package client

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

var _ job.Limiter = (*Jobs)(nil)

func (j *Jobs) limits(ctx context.Context) ([]api.Limit, error) {
	out, err := ask[api.Limits](ctx, j.client, Call{Method: http.MethodGet, Path: "/v1/limits"}, asJob)
	return out.Limits, err
}

// Limits implements job.Limiter.
func (j *Jobs) Limits(ctx context.Context) ([]job.LimitState, error) {
	found, err := j.limits(ctx)
	return lists.Map(found, api.Limit.State), err
}

// LimitUse implements job.Limiter. A server returns at most 20 buckets.
func (j *Jobs) LimitUse(ctx context.Context, name job.LimitName, n int) (job.LimitUse, error) {
	found, err := j.limits(ctx)
	if err != nil {
		return job.LimitUse{}, err
	}
	i := slices.IndexFunc(found, func(l api.Limit) bool { return l.LimitName() == name })
	if i < 0 {
		return job.LimitUse{}, job.ErrNotFound
	}
	use := found[i].Use
	use.Cut(n)
	return use, nil
}

// SetLimit implements job.Limiter.
func (j *Jobs) SetLimit(ctx context.Context, s job.LimitSetting) error {
	call := Call{Method: http.MethodDelete, Path: "/v1/limits/" + url.PathEscape(s.Name), Query: params.Of("queue", s.Queue, "type", s.Type), Once: true}
	if s.Limit != nil || s.Off {
		call.Method, call.Body = http.MethodPut, api.NewLimitSetting(s)
	}
	return asJob(j.client.Do(ctx, call, nil))
}

// PublishLimits fails: workers open the store.
func (j *Jobs) PublishLimits(context.Context, []policy.LimitScope) error { return errLeases }
