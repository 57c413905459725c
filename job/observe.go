package job

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// after is the state that a settlement leads to.
var after = map[Kind]State{
	KindComplete: Completed, KindRetry: Scheduled, KindDead: Dead, KindBury: Dead, KindRelease: Ready, KindSnooze: Scheduled,
	KindRefuse: Scheduled, KindCancel: Cancelled,
}

// reporter notifies the observer and the log of state changes of jobs.
type reporter struct {
	observer observe.Observer // nil if there is none
	events   events
	log      *slog.Logger
	worker   string
	runner   *runner // knows the jobs' policies
}

// moved notifies the observer of the state change by a settlement; at is when the write began. The job may already be
// running again.
func (p *reporter) moved(x *settling, at time.Time) {
	r, to := x.record, after[x.Kind]
	if x.cancelled {
		to = Cancelled
	}
	t := observe.Transition{From: string(Running), To: string(to), Reason: x.Reason, Attempts: x.made(r), Worker: p.worker}
	p.event(r, at, &t, x.Error)
	if p.observer != nil {
		told := t // only the observer needs one on the heap
		p.tell(p.workOf(r), at, r.Fence, &told)
	}
}

// started adds the start of a claimed job to the events. The observer gets the start of its attempt instead.
func (p *reporter) started(r *Record, at time.Time) {
	p.event(r, at, &observe.Transition{From: string(Ready), To: string(Running), Attempts: r.Failures, Worker: p.worker}, "")
}

func (p *reporter) event(r *Record, at time.Time, t *observe.Transition, text string) {
	if p.events.readers.Load() == 0 {
		return
	}
	p.events.add(&Event{
		Time: Stamp(at), ID: r.ID, Type: r.Type, Queue: r.Queue, From: State(t.From), To: State(t.To), Reason: t.Reason, Attempts: t.Attempts,
		Error: excerpt(CleanText(text)), Worker: t.Worker, Meta: r.Meta,
	})
}

// logDead logs a job if its settlement made it dead.
func (p *reporter) logDead(r *Record, x *Settlement) {
	if after[x.Kind] != Dead {
		return
	}
	text := cmp.Or(x.Error, r.LastError)
	p.log.Warn("job: dead", "job", r.ID, "type", r.Type, "queue", r.Queue, "attempts", x.made(r), "reason", x.Reason, "error", excerpt(text))
}

// excerpt is the beginning of an error text, for a line of a log.
func excerpt(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// lost notifies the observer of reclaimed leases, and logs the jobs that are dead as a result. The workers that held the
// leases cannot do it. The jobs may be of queues and types that this worker does not run.
func (p *reporter) lost(list []Lost) {
	at := time.Now()
	for _, l := range list {
		if l.State == Dead {
			p.log.Warn("job: dead", "job", l.ID, "type", l.Type, "queue", l.Queue, "attempts", l.Attempts, "reason", policy.ReasonLeaseExpired, "worker", l.Worker)
		}
		r := &Record{ID: l.ID, Queue: l.Queue, Type: l.Type, Meta: l.Meta}
		t := &observe.Transition{From: string(Running), To: string(l.State), Reason: policy.ReasonLeaseExpired, Attempts: l.Attempts, Worker: l.Worker}
		p.event(r, at, t, "")
		if p.observer != nil {
			p.tell(p.workOf(r), at, l.Fence, t)
		}
	}
}

// tell sends a transition to the observer, with the last sequence number of the turn that it ended.
func (p *reporter) tell(work observe.Work, at time.Time, fence int64, t *observe.Transition) {
	defer func() {
		if v := recover(); v != nil { // an observer must not end the worker
			p.log.Error("job: panic in the observer", "job", work.ID, "error", v)
		}
	}()
	p.observer.Observe(context.Background(), &observe.Event{
		Type: observe.JobMoved, Time: at, Seq: int(fence+1)*retry.SeqPerTurn - 1, Work: work, Transition: t,
	})
}

// workOf identifies a job for observers, under the category of the policy in force.
func (p *reporter) workOf(r *Record) observe.Work {
	key := p.runner.key(r.Queue, r.Type)
	work := workOf(r.ID, key, r.Type, r.Meta)
	work.Category = p.runner.executor.Policy(context.Background(), key).Category
	return work
}

func workOf(id string, key policy.Key, jobType string, meta map[string]string) observe.Work {
	return observe.Work{
		ID: id, Key: key, Surface: policy.SurfaceJob, Operation: jobType, TenantID: meta["tenant_id"],
		CorrelationID: meta["correlation_id"], TraceID: meta["trace_id"],
	}
}
