package job_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

// logged makes a logger and a function that returns its output, without times.
func logged() (job.WorkerOption, *bytes.Buffer) {
	out := &bytes.Buffer{}
	handler := slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return job.WithLogger(slog.New(handler)), out
}

func TestAnOutageOfTheStoreIsLoggedOnceAndSoIsItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open()
		store := &faulty{Store: db.Jobs()}
		b := &bench{t: t, store: db.Jobs(), client: job.NewClient(db.Jobs())}
		log, out := logged()
		stop := b.start(store, func(context.Context, job.Job[[]byte]) error {
			time.Sleep(20 * time.Second)
			return nil
		}, job.WithLease(time.Minute), log)
		b.enqueue(job.Request{})
		b.enqueue(job.Request{})
		for range 2 {
			time.Sleep(5 * time.Second)
			store.down.Store(true)
			time.Sleep(50 * time.Second) // claims, maintenance, an extension and settlements fail meanwhile
			store.down.Store(false)
			time.Sleep(50 * time.Second)
		}
		stop()
		if store.faults.Load() < 20 {
			t.Errorf("%d faults", store.faults.Load())
		}
		var levels []string
		for line := range strings.Lines(out.String()) {
			levels = append(levels, strings.Fields(line)[0])
		}
		if got := strings.Join(levels, " "); got != "level=WARN level=INFO level=WARN level=INFO" ||
			!strings.Contains(out.String(), `error="connection refused"`) || !strings.Contains(out.String(), "works again") {
			t.Errorf("the log holds:\n%s", out)
		}
	})
}

func TestADeadJobIsLoggedInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := logged()
		handler, _ := failing(errors.New("first line\nsecond\x1b[31m" + strings.Repeat("x", 2000)))
		b := work(t, handler, job.WithRetryPolicy(steady(2)), log)
		id := b.enqueue(job.Request{Queue: job.DefaultQueue})
		time.Sleep(time.Minute)
		b.stop()
		text := out.String()
		want := `level=WARN msg="job: dead" job=` + id + ` type=t queue=default attempts=2 reason=attempts_exhausted error="first line\nsecond\x1b[31mxxx`
		if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, want) || len(text) > 1000 {
			t.Errorf("the log holds %q, want %q…", text, want)
		}
	})
}
