package operation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/secrets"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// Record records an operator's action before it happens. If it fails, the action must not happen.
func Record(ctx context.Context, log *audit.Log, o audit.Operation) error {
	if err := log.OperatorAction(ctx, o); err != nil {
		return fmt.Errorf("nothing was done, because the action could not be recorded: %w", err)
	}
	return nil
}

// The values of attributes have a maximum length, so the IDs of many jobs are spread over several.
const (
	idsTogether = 200
	// MostIDs is how many IDs the record of an action can hold.
	MostIDs = 10_000
)

// OnJobs describes an action on the n jobs that a filter selects.
func OnJobs(action string, f job.Filter, n int) (audit.Operation, error) {
	o := audit.Operation{Action: action, Attributes: map[string]string{"jobs": strconv.Itoa(n)}}
	if len(f.IDs) > MostIDs {
		return o, fmt.Errorf("%d IDs are too many to record; name at most %d, or select jobs by filters", len(f.IDs), MostIDs)
	}
	for name, value := range map[string]string{
		"queue": f.Queue, "type": f.Type, "error": f.ErrorContains, "created_before": Instant(f.CreatedBefore), "created_after": Instant(f.CreatedAfter),
		"filter": new(secrets.Redaction).Terms(withoutPayloads(f.Terms)).String(),
	} {
		if value != "" {
			o.Attributes[name] = value
		}
	}
	if len(f.IDs) == 1 {
		o.WorkID = f.IDs[0]
		return o, nil
	}
	part := 0
	for ids := range slices.Chunk(f.IDs, idsTogether) {
		part++
		o.Attributes["ids_"+strconv.Itoa(part)] = strings.Join(ids, " ")
	}
	return o, nil
}

// withoutPayloads redacts the values of payloads, which audit logs never contain.
func withoutPayloads(terms filter.Terms) filter.Terms {
	terms = slices.Clone(terms)
	for i := range terms {
		if terms[i].Field == job.FieldPayload {
			terms[i].Values = filter.Exactly(secrets.Hidden)
		}
	}
	return terms
}

// OnRecords describes an action on jobs that have been read.
func OnRecords(action string, records []*job.Record) (audit.Operation, error) {
	ids := lists.Map(records, func(r *job.Record) string { return r.ID })
	o, err := OnJobs(action, job.Filter{IDs: ids}, len(ids))
	if len(records) == 1 {
		r := records[0]
		o.Key, o.From, o.Attributes["queue"] = policy.JobKey(r.Queue, r.Type), string(r.State), r.Queue
	}
	return o, err
}

// OnQueue is the pausing or resumption of a queue.
func OnQueue(q job.QueueState) audit.Operation {
	o := audit.Operation{Action: "queues.resume", Attributes: map[string]string{"queue": q.Queue}}
	if q.Paused {
		o.Action, o.Detail = "queues.pause", q.Reason
	}
	if !q.Until.IsZero() {
		o.Attributes["until"] = Instant(q.Until)
	}
	return o
}

// OnPeriodic is the running of a periodic job outside its schedule.
func OnPeriodic(name, queue, jobType string) audit.Operation {
	return audit.Operation{
		Action: "periodic.run", Key: policy.JobKey(queue, jobType), Attributes: map[string]string{"name": name, "queue": queue},
	}
}

// OnSetting is the change of a setting. The record holds no payloads.
func OnSetting(before, after job.Setting) audit.Operation {
	o := audit.Operation{Action: "queues.set", From: settingText(before), To: settingText(after), Attributes: map[string]string{"queue": after.Name, "setting": string(after.Kind)}}
	if after.Kind == job.SettingPeriodic {
		o.Action, o.Attributes = "periodic.set", map[string]string{"name": after.Name}
		if p, deleted, err := after.Periodic(); err == nil && p != nil {
			o.Key, o.Attributes["queue"] = policy.JobKey(cmp.Or(p.Request.Queue, job.DefaultQueue), p.Request.Type), cmp.Or(p.Request.Queue, job.DefaultQueue)
		} else if deleted {
			o.Action = "periodic.delete"
		}
	}
	return o
}

// settingText describes the value of a setting for the audit log.
func settingText(s job.Setting) string {
	if s.Value == nil {
		return "document"
	}
	if s.Kind != job.SettingPeriodic {
		return string(s.Value)
	}
	p, deleted, err := s.Periodic()
	switch {
	case deleted:
		return "deleted"
	case err != nil || p == nil:
		return "unreadable"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s in %s %s", p.Cron, p.Location, p.Request.Type, cmp.Or(p.Request.Queue, job.DefaultQueue), p.Missed))
}

// OnRedrive is the making of a redrive of n jobs.
func OnRedrive(r job.NewRedrive, n int) (audit.Operation, error) {
	o, err := OnJobs("redrives.create", r.Filter, n)
	o.From, o.To = string(job.Dead), string(job.Ready)
	o.Attributes["redrive"] = r.ID
	for name, value := range map[string]float64{
		"rate": r.Rate, "canary": float64(r.Canary), "canary_share": r.CanaryShare, "stop_share": r.StopShare, "stop_least": float64(r.StopLeast), "max_pending": float64(r.MaxPending),
	} {
		if value != 0 {
			o.Attributes[name] = strconv.FormatFloat(value, 'g', -1, 64)
		}
	}
	return o, err
}

// OnRedriveChange is an operator's change of a redrive, as it is before and after.
func OnRedriveChange(before, after job.Redrive, c job.RedriveChange) audit.Operation {
	o := audit.Operation{Action: "redrives." + string(c.Action), From: string(before.State), To: string(after.State), Attributes: map[string]string{"redrive": before.ID}}
	if c.Action == job.RedriveSetRate {
		o.From, o.To = rateText(before.Rate), rateText(after.Rate)
	}
	return o
}

func rateText(rate float64) string { return strconv.FormatFloat(rate, 'g', -1, 64) + "/s" }

// OnRecord describes an action on an idempotency record.
func OnRecord(action string, r idempotency.Record) audit.Operation {
	return audit.Operation{Action: action, TenantID: r.Tenant, Operation: r.Operation, IdempotencyKey: r.Key, From: string(r.State)}
}

// FencedRecord is why a change of an idempotency record was not made.
const FencedRecord = "the record has changed, or its claim is live"

// Refused is the record of a change that was announced, but not made.
func Refused(o audit.Operation, why string) audit.Operation {
	o.Detail = "refused: " + why
	return o
}

// Instant formats a time as audit events do. Zero is "".
func Instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
