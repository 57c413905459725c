package job

import (
	"context"
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

// moved tells the observer what a settlement did to its job that was written from at on.
func (w *Worker) moved(x Settlement, at time.Time) {
	if w.observer == nil {
		return
	}
	w.mu.Lock()
	run := w.running[x.ID]
	w.mu.Unlock()
	if run == nil || run.record.Fence != x.Fence {
		return
	}
	defer func() {
		if v := recover(); v != nil { // an observer must not end the settler
			w.log.Error("job: panic in the observer", "job", x.ID, "error", v)
		}
	}()
	r := run.record
	attempts := r.Attempts
	if x.Kind == KindRetry || x.Kind == KindDead {
		attempts++
	}
	w.observer.Observe(context.Background(), &observe.Event{
		Type: observe.JobMoved, Time: at, Seq: int(r.Fence+1)*retry.SeqPerTurn - 1, Work: workOf(r, w.keys[kind{r.Queue, r.Type}]),
		Transition: &observe.Transition{
			From: string(Running), To: string(after[x.Kind]), Reason: x.Reason, Attempts: attempts, Worker: w.name,
		},
	})
}

// workOf identifies a job for observers.
func workOf(r *Record, key policy.Key) observe.Work {
	return observe.Work{
		ID: r.ID, Key: key, Surface: policy.SurfaceJob, Operation: r.Type, TenantID: r.Meta["tenant_id"],
		CorrelationID: r.Meta["correlation_id"], TraceID: r.Meta["trace_id"],
	}
}
