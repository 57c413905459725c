package job

import (
	"context"
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

// moved tells the observer what a settlement did to its job that was written from at on. The job may be running again already.
func (w *Worker) moved(r *Record, x Settlement, at time.Time) {
	if w.observer == nil {
		return
	}
	w.tell(w.workOf(r), at, r.Fence, &observe.Transition{
		From: string(Running), To: string(after[x.Kind]), Reason: x.Reason, Attempts: x.made(r), Worker: w.name,
	})
}

// logDead logs a job that its last attempt has left dead.
func (w *Worker) logDead(r *Record, x Settlement) {
	if after[x.Kind] != Dead {
		return
	}
	text := x.Error
	if text == "" {
		text = r.LastError
	}
	w.log.Warn("job: dead", "job", r.ID, "type", r.Type, "queue", r.Queue, "attempts", x.made(r), "reason", x.Reason, "error", excerpt(text))
}

// excerpt is the beginning of an error text, for a line of a log.
func excerpt(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// lost tells the observer of leases that were taken back, and logs the jobs that died of it. Their workers cannot, and the
// jobs may be of queues and types that this worker does not run.
func (w *Worker) lost(list []Lost) {
	at := time.Now()
	for _, l := range list {
		if l.State == Dead {
			w.log.Warn("job: dead", "job", l.ID, "type", l.Type, "queue", l.Queue, "attempts", l.Attempts, "reason", policy.ReasonLeaseExpired, "worker", l.Worker)
		}
		if w.observer == nil {
			continue
		}
		w.tell(w.workOf(&Record{ID: l.ID, Queue: l.Queue, Type: l.Type, Meta: l.Meta}), at, l.Fence, &observe.Transition{
			From: string(Running), To: string(l.State), Reason: policy.ReasonLeaseExpired, Attempts: l.Attempts, Worker: l.Worker,
		})
	}
}

// tell gives a transition the last number of the turn that it ended.
func (w *Worker) tell(work observe.Work, at time.Time, fence int64, t *observe.Transition) {
	defer func() {
		if v := recover(); v != nil { // an observer must not end what keeps the worker going
			w.log.Error("job: panic in the observer", "job", work.ID, "error", v)
		}
	}()
	w.observer.Observe(context.Background(), &observe.Event{
		Type: observe.JobMoved, Time: at, Seq: int(fence+1)*retry.SeqPerTurn - 1, Work: work, Transition: t,
	})
}

// workOf identifies a job for observers, under the category of the policy in force.
func (w *Worker) workOf(r *Record) observe.Work {
	key := w.key(r.Queue, r.Type)
	work := workOf(r.ID, key, r.Type, r.Meta)
	work.Category = w.executor.Policy(context.Background(), key).Category
	return work
}

func workOf(id string, key policy.Key, jobType string, meta map[string]string) observe.Work {
	return observe.Work{
		ID: id, Key: key, Surface: policy.SurfaceJob, Operation: jobType, TenantID: meta["tenant_id"],
		CorrelationID: meta["correlation_id"], TraceID: meta["trace_id"],
	}
}
