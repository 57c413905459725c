package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/internal/secrets"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

type settingChange struct {
	Kind job.SettingKind `path:"kind" enum:"concurrency,periodic"`
	Name string          `path:"name" minLength:"1" maxLength:"255"`
	Body api.SettingChange
}

func (s *Server) settingRoutes() {
	read, operate := group{tag: "Queues", scope: policystore.ScopeRead}, group{tag: "Queues", scope: policystore.ScopeOperate, once: keyed}
	register(s, read.route(http.MethodGet, "/v1/settings", "list-settings", "List what operators have set for queues and periodic jobs"), s.listSettings)
	put := operate.route(http.MethodPut, "/v1/settings/{kind}/{name}", "put-setting", "Set the concurrency of a queue or a periodic job")
	put.Description = `Workers follow within a second. The kind concurrency is the number of jobs of a queue that each worker runs at once, from 1 to 100,000. The kind periodic is a periodic job: {"cron", "time_zone", "missed": "once" or "all", "job": {"type", "queue", "payload", "priority", "max_attempts", "timeout_ns", "meta"}}, or {"deleted": true}. Without a value the default of the workers applies again: of their document, their file or their code. A change of a periodic job holds for ticks from 2 seconds after it, and waits for up to 2 seconds if the job has just been changed.`
	register(s, put, s.putSetting)
}

// settingStore returns the store as one that keeps settings.
func (s *Server) settingStore() (job.SettingStore, error) {
	return able[job.SettingStore](s.options.Jobs, "this store does not keep settings", "use SQLite or PostgreSQL")
}

// mayChange returns an error unless a caller may change a setting: that of the queue, or of a periodic job in queues that it is
// bound to.
func (c *caller) mayChange(x *job.Setting) error {
	if x.Kind == job.SettingConcurrency {
		return c.mayQueue(x.Name)
	}
	for _, value := range []json.RawMessage{x.Value, x.Previous} {
		of := job.Setting{Name: x.Name, Value: value}
		if p, _, err := of.Periodic(); err == nil && p != nil {
			if err := c.mayQueue(cmp.Or(p.Request.Queue, job.DefaultQueue)); err != nil {
				return err
			}
		}
	}
	return nil
}

// definesPeriodic reports whether a setting says what a periodic job is.
func definesPeriodic(x *job.Setting) bool {
	p, _, err := x.Periodic()
	return err == nil && p != nil
}

func (s *Server) listSettings(ctx context.Context, _ *struct{}) (*answer[api.Settings], error) {
	store, err := s.settingStore()
	if err != nil {
		return nil, err
	}
	list, version, err := store.Settings(ctx, -1)
	if err != nil {
		return nil, err
	}
	out := api.Settings{Version: version, Settings: []api.Setting{}}
	for i := range list {
		if who := callerOf(ctx); who.mayChange(&list[i]) == nil {
			out.Settings = append(out.Settings, shownSetting(list[i]))
		}
	}
	return answers(out, nil)
}

// shownSetting returns a setting without secrets.
func shownSetting(x job.Setting) api.Setting {
	return api.Setting{Kind: x.Kind, Name: x.Name, Value: new(secrets.Redaction).JSON(x.Value), By: x.By, At: x.At}
}

func (s *Server) putSetting(ctx context.Context, in *settingChange) (*answer[api.Setting], error) {
	store, err := s.settingStore()
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	x := job.Setting{Kind: in.Kind, Name: in.Name, By: who.actor()}
	if string(in.Body.Value) != "null" {
		x.Value = in.Body.Value
	}
	if err := x.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	x, err = job.ChangeSetting(ctx, store, x, func(before *job.Setting, version int64) error {
		if err := s.mayReplace(who, before, x); err != nil {
			return err
		}
		if in.Body.Version != nil && *in.Body.Version != version {
			return fmt.Errorf("the settings have changed: %w", job.ErrConflict)
		}
		return s.record(ctx, operation.OnSetting(*before, x))
	})
	return answers(shownSetting(x), err)
}

// mayReplace returns an error unless the caller may put x in place of the setting before.
func (s *Server) mayReplace(who *caller, before *job.Setting, x job.Setting) error {
	x.Previous = before.Value
	if err := who.mayChange(&x); err != nil || x.Kind != job.SettingPeriodic {
		return err
	}
	known := definesPeriodic(&x) || definesPeriodic(before)
	if !known { // a default that is replaced or deleted
		ended := job.Setting{Kind: x.Kind, Name: x.Name, Value: before.Previous}
		if err := who.mayChange(&ended); err != nil {
			return err
		}
		known = definesPeriodic(&ended)
	}
	for _, p := range s.options.Periodic {
		if p.Name == x.Name {
			known = true
			if err := who.mayQueue(cmp.Or(p.Request.Queue, job.DefaultQueue)); err != nil {
				return err
			}
		}
	}
	if !known && len(who.Queues) > 0 { // only the workers know its queue
		return boundProblem("queues", who.Queues)
	}
	return nil
}

// periodicJobs returns the periodic jobs that workers with the server's defaults follow.
func (s *Server) periodicJobs(ctx context.Context) ([]job.PeriodicState, error) {
	store, ok := s.options.Jobs.(job.SettingStore)
	if !ok {
		return job.PeriodicJobs(s.options.Periodic, nil), nil
	}
	list, _, err := store.Settings(ctx, -1)
	return job.PeriodicJobs(s.options.Periodic, list), err
}

// periodicOf describes a periodic job.
func periodicOf(p *job.PeriodicState) (api.Periodic, error) {
	next, err := p.Next(time.Now())
	zone := "UTC"
	if p.Location != nil {
		zone = p.Location.String()
	}
	out := api.Periodic{
		Name: p.Name, Cron: p.Cron, TimeZone: zone, Missed: cmp.Or(string(p.Missed), "skip"), Next: next, Type: p.Request.Type,
		Queue: cmp.Or(p.Request.Queue, job.DefaultQueue), Source: api.SourceDocument,
	}
	if p.Set.Value != nil {
		out.Source, out.By, out.At = api.SourceOperator, p.Set.By, p.Set.At
	}
	return out, err
}
