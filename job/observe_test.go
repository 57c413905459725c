package job_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/observe"
)

// moves collects the transitions of jobs, and checks that the events of each come in the order of their Seq.
type moves struct {
	mu    sync.Mutex
	lines []string
	seq   map[string]int
	wrong []string
}

func (m *moves) Observe(_ context.Context, e *observe.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seq == nil {
		m.seq = map[string]int{}
	}
	if e.Seq <= m.seq[e.Work.ID] {
		m.wrong = append(m.wrong, fmt.Sprintf("%s: %d after %d", e.Type, e.Seq, m.seq[e.Work.ID]))
	}
	m.seq[e.Work.ID] = e.Seq
	if t := e.Transition; e.Type == observe.JobMoved {
		m.lines = append(m.lines, fmt.Sprintf("%s %s %s→%s %s %d", e.Work.Surface, e.Work.Operation, t.From, t.To, t.Reason, t.Attempts))
	}
}

func TestA1TransitionsOfJobsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moves{}
		ends := []error{errors.New("down"), job.Snooze(time.Second), errors.New("down"), nil}
		b := work(t, func(context.Context, job.Job[[]byte]) error {
			err := ends[0]
			ends = ends[1:]
			return err
		}, job.WithRetryPolicy(steady(5)), job.WithObserver(m))
		b.enqueue(job.Request{})
		time.Sleep(time.Minute)
		synctest.Wait()
		b.stop()
		want := []string{
			"job t running→scheduled error 1", "job t running→scheduled snoozed 1", "job t running→scheduled error 2",
			"job t running→completed success 2",
		}
		if diff := cmp.Diff(want, m.lines); diff != "" {
			t.Error(diff)
		}
		if len(m.wrong) > 0 {
			t.Error(m.wrong)
		}
	})
}
