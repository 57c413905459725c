package ui_test

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
)

// operationPaths are pages of queues, workers, records and tokens.
var operationPaths = map[string]string{
	"pause": "do/queues/mail/pause", "concurrency": "do/queues/mail/concurrency", "set-periodic": "do/periodic/set", "end-periodic": "do/periodic/nightly%2Freport/delete", "queue": "queues/mail", "workers": "workers", "periodic": "periodic", "run-periodic": "do/periodic/nightly%2Freport/run",
	"idempotency": "idempotency", "record": "idempotency/record?" + invoice4, "resolve": "do/idempotency/resolve?" + invoice4,
	"audit": "audit", "verify-audit": "do/audit/verify", "replay-audit": "do/audit/replay", "event": "audit/1", "operators": "operators", "tokens": "tokens", "create-token": "do/tokens/create",
}

// has fails the test unless a page holds all of the texts.
func has(t testing.TB, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("no %q in\n%s", text, page)
		}
	}
}

func (s *site) queue(name string) job.QueueState {
	s.t.Helper()
	list, err := s.db.Jobs().Queues(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, q := range list {
		if q.Queue == name {
			return q
		}
	}
	return job.QueueState{Queue: name}
}

func TestU2QueuesArePausedWithAReasonAndATimeAndResumed(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue(job.Request{Type: "t", Queue: "a/b c"})
	page := s.get("queues")
	has(t, page, "/ui/queues/a%2Fb%20c", "none", "Pause")
	has(t, s.get("queues/a%2Fb%20c"), "No worker serves this queue", "Queue a/b c")

	has(t, s.post("do/queues/a%2Fb%20c/pause", url.Values{"reason": {"provider"}, "for": {"soon"}, "key": {"k0"}}), "write a time span", `value="provider"`)
	if q := s.queue("a/b c"); q.Paused {
		t.Fatalf("paused for %q", "soon")
	}
	before := time.Now()
	s.post("do/queues/a%2Fb%20c/pause", url.Values{"reason": {"provider <down>"}, "for": {"30m"}, "key": {"k1"}})
	q := s.queue("a/b c")
	if !q.Paused || q.Reason != "provider <down>" || q.Until.Before(before.Add(29*time.Minute)) || q.Until.After(before.Add(31*time.Minute)) {
		t.Fatalf("%+v", q)
	}
	has(t, s.get("queues"), "paused", "provider &lt;down&gt;", "by local:anyone", "Resume")
	s.post("do/queues/a%2Fb%20c/resume", url.Values{"key": {"k2"}})
	if diff := cmp.Diff(job.QueueState{Queue: "a/b c", Actor: "local:anyone"}, s.queue("a/b c")); diff != "" {
		t.Error(diff)
	}
}

func TestS6ASecondClickIsAnsweredAsTheFirst(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	for path, form := range map[string]url.Values{
		"do/queues/mail/pause": {"reason": {"deploy"}, "for": {"30m"}}, "do/jobs/delete?filter=state:dead+before:0s": {"count": {"1"}},
	} {
		for _, name := range []string{"key", "shown"} {
			form.Set(name, regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(s.get(path))[1])
		}
		for range 2 {
			has(t, s.post(path, form), `<p class="notice"`)
		}
	}
	form := url.Values{"reason": {"deploy"}, "for": {"30m"}, "shown": {time.Now().Add(-time.Hour).Format(time.RFC3339)}}
	has(t, s.post("do/queues/mail/pause", form), "has passed since this form was shown")
}

func TestU1PagesOfQueuesAreBounded(t *testing.T) {
	s := newSite(t, nil)
	var list []job.Request
	for i := range 130 {
		list = append(list, job.Request{Type: "t", Queue: fmt.Sprintf("queue-%03d", i), RunAt: time.Now().Add(-time.Duration(i+2) * time.Minute)})
	}
	s.enqueue(list...)
	page := s.get("")
	if rows := strings.Count(page, "no worker serves it"); rows != 20 {
		t.Errorf("the overview shows %d queues, want 20", rows)
	}
	has(t, page, "queue-129", "queue-110", "And 110 queues more.")
	for path, want := range map[string]int{"queues": 100, "queues?after=queue-099": 30} {
		page := s.get(path)
		if rows := strings.Count(page, `<th scope="row">`); rows != want || strings.Contains(page, "/ui/queues?after=queue-099") != (want == 100) {
			t.Errorf("%s: %d queues, want %d", path, rows, want)
		}
	}
}

func TestU2APeriodicJobRunsAtOnce(t *testing.T) {
	s := newSite(t, nil)
	has(t, s.get("periodic"), "nightly/report", "0 3 * * *", "the latest is run", "UTC")
	has(t, s.get("do/periodic/nightly%2Freport/run"), "One job of type report:build is enqueued in documents", "periodic run --file FILE nightly/report")
	has(t, s.post("do/periodic/nightly%2Freport/run", url.Values{"key": {"k"}, "count": {"1"}}), "was enqueued", "report:build")
	if list, err := s.db.Jobs().List(t.Context(), job.Filter{Queue: "documents"}, "", 10); err != nil || len(list) != 1 {
		t.Errorf("%d jobs, %v", len(list), err)
	}
}

func TestU2TheConcurrencyOfAQueueIsSetAndGivenBack(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue(job.Request{Type: "t", Queue: "mail"})
	has(t, s.get("queues/mail"), "as the workers' documents and flags say", "Set concurrency")
	has(t, s.post("do/queues/mail/concurrency", url.Values{"concurrency": {"0"}, "key": {"k0"}}), "write a number from 1 to 100,000")
	s.post("do/queues/mail/concurrency", url.Values{"concurrency": {"7"}, "key": {"k1"}})
	has(t, s.get("queues/mail"), "<strong>7</strong>, set by local:anyone")
	s.post("do/queues/mail/concurrency", url.Values{"concurrency": {""}, "key": {"k2"}})
	has(t, s.get("queues/mail"), "as the workers' documents and flags say")
}

func TestU2PeriodicJobsAreSetEndedAndGivenBack(t *testing.T) {
	s := newSite(t, nil)
	fields := url.Values{"name": {"weekly"}, "cron": {"@weekly"}, "missed": {"once"}, "job": {`{"type":"t","queue":"mail"}`}, "key": {"k1"}}
	s.post("do/periodic/set", fields)
	has(t, s.get("periodic"), "weekly", "@weekly", "local:anyone")
	s.post("do/periodic/nightly%2Freport/delete", url.Values{"key": {"k2"}})
	if page := s.get("periodic"); strings.Contains(page, "nightly/report") {
		t.Error("the job has not ended")
	}
	s.post("do/periodic/nightly%2Freport/reset", url.Values{"key": {"k3"}})
	has(t, s.get("periodic"), "nightly/report", "document")
}

func TestU3AQueueIsPausedByKeyboardAlone(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue(job.Request{Type: "t", Queue: "mail"})
	b := s.tab(t, wide)
	b.open("queues")
	b.keys("j", kb.Tab) // the row, then its next link
	for range 20 {
		if value[string](b, `document.activeElement.textContent`) == "Pause" {
			break
		}
		b.keys(kb.Tab)
	}
	b.keys(kb.Enter)
	b.wait(`document.querySelector("#dialog[open] input[name=reason]") === document.activeElement`)
	b.keys("d", "o", "w", "n", kb.Enter)
	b.ready(".notice")
	if text := b.text(".notice"); text != "mail is paused." {
		t.Error(text)
	}
	if q := s.queue("mail"); !q.Paused || q.Reason != "down" {
		t.Errorf("%+v", q)
	}
}
