package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

var _ job.SettingStore = (*Jobs)(nil)

// Settings implements job.SettingStore, without what the settings have replaced. Payloads of periodic jobs come without secrets.
func (j *Jobs) Settings(ctx context.Context, known int64) ([]job.Setting, int64, error) {
	var out api.Settings
	if err := j.client.Do(ctx, Call{Method: http.MethodGet, Path: "/v1/settings"}, &out); err != nil {
		return nil, 0, asJob(err)
	}
	if out.Version == known {
		return nil, known, nil
	}
	return lists.Map(out.Settings, func(x api.Setting) job.Setting {
		return job.Setting{Kind: x.Kind, Name: x.Name, Value: x.Value, By: x.By, At: x.At}
	}), out.Version, nil
}

// PutSetting implements job.SettingStore. The server notes the caller as who made it.
func (j *Jobs) PutSetting(ctx context.Context, s job.Setting, version int64) error {
	path := "/v1/settings/" + url.PathEscape(string(s.Kind)) + "/" + url.PathEscape(s.Name)
	return asJob(j.client.Do(ctx, Call{Method: http.MethodPut, Path: path, Body: api.SettingChange{Value: s.Value, Version: &version}, Once: true}, nil))
}

// RunPeriodic enqueues the job of a periodic job now. The server knows its secrets, which Settings leaves out.
func (j *Jobs) RunPeriodic(ctx context.Context, name string) (job.Receipt, error) {
	out, err := ask[api.Receipt](ctx, j.client, Call{Method: http.MethodPost, Path: "/v1/periodic/" + url.PathEscape(name) + "/run", Once: true}, asJob)
	return job.Receipt(out), err
}
