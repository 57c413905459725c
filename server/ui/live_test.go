package ui_test

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
)

// watch opens the stream of a page's updates and returns a function for the next one, which is empty when the stream ends.
func (s *site) watch(ctx context.Context, path string) (next func() string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http.URL+"/ui/live?page="+url.QueryEscape("/ui/"+path), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := s.http.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK || answer.Header.Get("X-Accel-Buffering") != "no" { // nginx would hold updates back
		s.t.Fatalf("%s: %s %v", path, answer.Status, answer.Header)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 4<<20)
	return func() string {
		var b strings.Builder
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				b.WriteString(data + "\n")
			} else if lines.Text() == "" && b.Len() > 0 {
				return b.String()
			}
		}
		return ""
	}
}

func TestU1AnUpdateOfAPageIsStreamedWhenTheStoreChanges(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue(job.Request{Type: "email:send", Queue: "mail", Payload: []byte(`{}`)})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	next := s.watch(ctx, "queues")
	if first := next(); !strings.Contains(first, "mail") || strings.Contains(first, "late") {
		t.Fatalf("the first content: %s", first)
	}
	s.enqueue(job.Request{Type: "email:send", Queue: "late", Payload: []byte(`{}`)})
	for content := next(); !strings.Contains(content, "late"); content = next() {
		if content == "" {
			t.Fatal("the stream ended without the change")
		}
	}
}

// seenWithin fails the test if changes are seen too late. On a busy machine some are: the fastest of several counts. The first
// does not, because a server that looks for changes from time to time may be about to look; each other change is made just after
// the one before was seen, when the wait is longest.
func seenWithin(t testing.TB, limit time.Duration, change, seen func(i int)) {
	t.Helper()
	fastest := time.Duration(math.MaxInt64)
	for i := 0; i < 6 && fastest > limit; i++ {
		began := time.Now()
		change(i)
		seen(i)
		if took := time.Since(began); i > 0 {
			t.Logf("change %d is seen after %v", i, took.Round(time.Millisecond))
			fastest = min(fastest, took)
		}
	}
	if fastest > limit {
		t.Errorf("the fastest of 5 changes is seen after %v, want at most %v", fastest, limit)
	}
}

func TestU1AChangeIsStreamedWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, path := range []string{"queues", "jobs"} { // a page whose numbers move, and one that does not
		next := s.watch(ctx, path)
		if next() == "" {
			t.Fatalf("%s: no content", path)
		}
		name := func(i int) string { return fmt.Sprintf("%s-change-%d", path, i) }
		seenWithin(t, 2*time.Second, func(i int) {
			s.enqueue(job.Request{Type: "email:send", Queue: name(i), Payload: []byte(`{}`)})
		}, func(i int) {
			for content := next(); !strings.Contains(content, name(i)); content = next() {
				if content == "" {
					t.Fatalf("%s: the stream ended without the change", path)
				}
			}
		})
	}
}

func TestU1PagesFollowTheirOwnChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	jobs := s.db.Jobs()
	for path, change := range map[string]func(ctx context.Context, name string) error{
		"workers": func(ctx context.Context, name string) error {
			return jobs.Announce(ctx, job.WorkerInfo{Name: name, Queues: []string{"mail"}}, time.Hour)
		},
		"periodic": func(ctx context.Context, name string) error {
			_, err := job.ChangeSetting(ctx, jobs, job.Setting{Kind: job.SettingPeriodic, Name: name, Value: []byte(`{"cron":"@hourly","job":{"type":"t"}}`)}, nil)
			return err
		},
		"idempotency": func(_ context.Context, name string) error {
			s.begin(idempotency.ID{Key: name}, time.Hour)
			return nil
		},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			next := s.watch(ctx, path)
			next()
			for _, name := range []string{"first", "second", "third"} { // a new stream updates its page once by itself
				if err := change(ctx, name); err != nil {
					t.Fatal(err)
				}
				for content := next(); !strings.Contains(content, name); content = next() {
					if content == "" {
						t.Fatalf("the %s change is not seen", name)
					}
				}
			}
		})
	}
}

func TestU1AStreamEndsWithTheRightsOfItsCaller(t *testing.T) {
	s := newSite(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	receipts := s.enqueue(job.Request{Type: "email:send", Payload: []byte(`{}`)})
	next := s.watch(ctx, "jobs/"+receipts[0].ID)
	if first := next(); !strings.Contains(first, "email:send") {
		t.Fatal(first)
	}
	if _, err := s.db.Jobs().Change(ctx, job.ActionDelete, job.Filter{IDs: []string{receipts[0].ID}}, 1); err != nil {
		t.Fatal(err)
	}
	if more := next(); more != "" {
		t.Fatalf("the job is gone, and its stream goes on: %s", more)
	}
}

// TestU1ASilentStreamStaysOpen: with HTTP/2, a write deadline ends a stream on which nothing is written.
func TestU1ASilentStreamStaysOpen(t *testing.T) {
	s := newSite(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	w := &deadlined{ResponseRecorder: httptest.NewRecorder(), flushed: make(chan struct{}, 1)}
	ended := make(chan struct{})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/ui/live?page=/ui/queues", nil)
	r.RemoteAddr = "127.0.0.1:1"
	go func() {
		defer close(ended)
		s.server.Handler().ServeHTTP(w, r)
	}()
	select {
	case <-w.flushed:
	case <-ended:
	}
	cancel()
	<-ended
	if !w.write.IsZero() {
		t.Errorf("a stream that has been written to has the deadline %v", w.write)
	}
}

// deadlined is a writer that remembers its write deadline.
type deadlined struct {
	*httptest.ResponseRecorder
	write   time.Time
	flushed chan struct{} // receives after the first write
}

func (d *deadlined) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

func (d *deadlined) Flush() {
	select {
	case d.flushed <- struct{}{}:
	default:
	}
}

func TestU1APageFollowsAgainAfterItsTabWasHidden(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	b := s.tab(t, wide)
	b.open("jobs")
	shows := func(queue string) {
		t.Helper()
		s.enqueue(job.Request{Type: "t", Queue: queue})
		b.wait(`document.getElementById("content").textContent.includes("` + queue + `")`)
	}
	shows("first")
	for _, hidden := range []string{"true", "false"} {
		value[bool](b, `Object.defineProperty(document, "hidden", {configurable: true, value: `+hidden+`}); document.dispatchEvent(new Event("visibilitychange"))`)
	}
	shows("second")
}

func TestU1APageWhoseStreamIsRefusedOnceFollowsLater(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	var refused atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/ui/live") && refused.CompareAndSwap(false, true) {
			http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
			return
		}
		s.server.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	b := s.tab(t, wide)
	b.url = front.URL
	b.open("jobs")
	b.wait(`!document.getElementById("stale").hidden`)
	s.enqueue(job.Request{Type: "t", Queue: "late"})
	b.wait(`document.getElementById("content").textContent.includes("late") && document.getElementById("stale").hidden`)
	b.allow("503")
}

func TestU1AnUpdateKeepsWhatWasTypedInAFilter(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.seedPolicies()
	s.storeFlow(&job.Flow{ID: "nightly", Jobs: []job.FlowJob{node("a", "t")}})
	b := s.tab(t, wide)
	for _, path := range []string{"jobs", "flows", "dlq", "pipelines", "clients", "mechanisms", "idempotency", "audit", "operators", "policies/shop/diff"} {
		b.open(path)
		value[bool](b, `document.querySelector("form.filter input").value = 17; document.querySelector("h1").textContent = ""; document.dispatchEvent(new Event("visibilitychange"))`)
		b.wait(`document.querySelector("h1").textContent !== ""`) // it was updated
		if typed := value[string](b, `document.querySelector("form.filter input").value`); typed != "17" {
			t.Errorf("%s: %q, want what was typed", path, typed)
		}
	}
}

func TestU1PagesThatDoNotExistHaveNoUpdates(t *testing.T) {
	s := newSite(t, nil)
	for _, target := range []string{"", "/ui/nothing", "http://example.com/ui/queues", "/v1/jobs", "/ui/components", "//example.com/ui/"} {
		answer, err := s.http.Client().Get(s.http.URL + "/ui/live?page=" + url.QueryEscape(target))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("%q: %s", target, answer.Status)
		}
	}
}
