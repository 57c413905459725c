package ui_test

import (
	"fmt"
	"html"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tenetdev/tenet/job"
)

// storied makes a job with attempts of every outcome, dead in the end.
func (s *site) storied() string {
	s.t.Helper()
	ctx, store := s.t.Context(), s.db.Jobs()
	id := s.enqueue(job.Request{
		Type: "invoice:mail", Queue: "stories", Payload: []byte(`{"order":{"id":42,"lines":["pen","ink"]},"authorization":"hunter2"}`), Meta: map[string]string{"tenant": "acme"}, UniqueKey: "invoice 42",
	})[0].ID
	claim := func(lease time.Duration) job.Ref {
		for {
			records, err := store.Claim(ctx, job.Claim{Worker: "host-2", Queues: []job.Slots{{Queue: "stories", Free: 1}}, Lease: lease})
			if err != nil {
				s.t.Fatal(err)
			}
			if len(records) == 1 {
				return records[0].Ref()
			}
			time.Sleep(time.Millisecond)
		}
	}
	settle := func(x job.Settlement) {
		x.Ref = claim(time.Minute)
		for _, err := range store.Settle(ctx, []job.Settlement{x}) {
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
	settle(job.Settlement{Kind: job.KindRetry, Delay: 40 * time.Millisecond, Reason: "transport", Error: "smtp: connection reset by peer"})
	settle(job.Settlement{Kind: job.KindRefuse, Delay: 15 * time.Millisecond, Reason: "circuit_open"})
	settle(job.Settlement{Kind: job.KindRefuse, Delay: 15 * time.Millisecond, Reason: "circuit_open"})
	settle(job.Settlement{Kind: job.KindRetry, Delay: 80 * time.Millisecond, Reason: "transport", Error: "smtp: connection reset by peer"})
	claim(5 * time.Millisecond)
	for {
		made, err := store.Maintain(ctx, job.Maintenance{Limit: 100})
		if err != nil {
			s.t.Fatal(err)
		}
		if r, _, err := store.Get(ctx, id); err != nil || r.State != job.Running {
			break
		}
		_ = made
		time.Sleep(time.Millisecond)
	}
	settle(job.Settlement{Kind: job.KindSnooze, Delay: 20 * time.Millisecond, Reason: "snoozed"})
	settle(job.Settlement{Kind: job.KindDead, Reason: "attempts_exhausted", Error: "panic: no invoice 42", Stack: "goroutine 7 [running]:\nmain.send(...)\n\t/srv/example.com/shop/internal/mail/mail.go:42 +0x1f"})
	return id
}

func TestU2AJobTellsItsStory(t *testing.T) {
	s := newSite(t, nil)
	id := s.storied()
	page := html.UnescapeString(s.get("jobs/" + id))
	for _, want := range []string{
		"This job is dead because its 4 attempts are used up.", "Mend the cause, and then retry the job.", "panic: no invoice 42",
		`class="span failed"`, `class="span refused"`, `class="span lost"`, `class="span snoozed"`, `class="span wait"`,
		"The policy allows another attempt after 40 ms.", "It was refused 2 times, which uses up no attempt.", "The attempt counts as failed, and the job is due again.",
		"No attempt follows: the job is dead.", "goroutine 7", "tenet jobs inspect " + id, "tenet audit explain " + id, `key:"invoice 42"`, "acme",
	} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.ReplaceAll(want, " ", "+")) && !strings.Contains(page, `key%3A%22invoice+42%22`) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	for _, scale := range []string{"1", "4", "64"} {
		if page := s.get("jobs/" + id + "?scale=" + scale); !strings.Contains(page, `aria-current="true"`) {
			t.Errorf("scale %s: %s", scale, page)
		}
	}
}

func TestU5PayloadsAreHiddenUntilAskedForAndSecretsThen(t *testing.T) {
	s := newSite(t, nil)
	id := s.storied()
	if page := html.UnescapeString(s.get("jobs/" + id)); strings.Contains(page, `"pen"`) || strings.Contains(page, "hunter2") {
		t.Error("the payload is shown without being asked for")
	}
	if page := html.UnescapeString(s.get("jobs/" + id + "?payload=show")); !strings.Contains(page, `"pen"`) || strings.Contains(page, "hunter2") {
		t.Errorf("the payload is not shown, or with its secret: %s", page)
	}
	if page := s.get("jobs/" + id + "?payload=show&secrets=show"); !strings.Contains(page, "hunter2") {
		t.Error("the secret is not shown to one who may see it")
	}
}

func TestU2AJobSaysWhyItWaits(t *testing.T) {
	s := newSite(t, nil)
	id := s.enqueue(job.Request{Type: "report:build", Queue: "reports", Payload: []byte(`{}`)})[0].ID
	if page := s.get("jobs/" + id); !strings.Contains(page, "No live worker takes report:build from the queue reports") {
		t.Error(page)
	}
	if err := s.db.Jobs().SetQueue(t.Context(), job.QueueState{Queue: "reports", Paused: true, Reason: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	if page := s.get("jobs/" + id); !strings.Contains(page, "Its queue is paused (maintenance)") {
		t.Error(page)
	}
}

func TestU4AJobIsDeletedByKeyboardAfterItsPreview(t *testing.T) {
	s := newSite(t, nil)
	s.dead(2, "email:send", "smtp: 550 mailbox %d is unavailable")
	jobs, err := s.db.Jobs().List(t.Context(), deadJobs, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	b := s.tab(t, wide)
	b.open("jobs/" + jobs[0].ID)
	if text := b.text("#story"); !strings.Contains(text, "redrive all 2 jobs that died of the same cause") {
		t.Errorf("story: %s", text)
	}
	b.do(chromedp.Focus(chromedp.CSS(`#story a.danger`)))
	b.keys(kb.Enter)
	b.wait(`document.querySelector("#dialog[open] h1")?.textContent === "Delete 1 job?"`)
	b.wait(`document.activeElement.closest("#dialog") !== null`)
	b.keys(kb.Tab)
	b.do(chromedp.Focus(chromedp.CSS(`#dialog button.danger`)))
	b.keys(kb.Enter)
	b.wait(`location.pathname === "/ui/jobs" && document.querySelector(".notice")?.textContent === "Deleted 1 job."`)
}

func TestU2AJobExplainsEachDecision(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	filter := deadJobs
	filter.ErrorContains = "try again later"
	jobs, err := s.db.Jobs().List(t.Context(), filter, "", 1)
	if err != nil || len(jobs) != 1 {
		t.Fatal(len(jobs), err)
	}
	path := "jobs/" + jobs[0].ID
	page := html.UnescapeString(s.get(path))
	for _, want := range []string{
		"it returned an error", "<code>default</code>", "retry.max_attempts = 3", "retry.backoff = 20ms", "16 ms to 24 ms", "32 ms to 48 ms", "Policy revision", "events of this job in the audit log", "job_transition", "retry_exhausted",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "Under ") {
		t.Error("a decision is compared with a document, but there is none")
	}
	s.publish("shop", 0, fmt.Sprintf(shopText, 3), "first", nil)
	if page := html.UnescapeString(s.get(path)); !strings.Contains(page, "Under shop now") || !strings.Contains(page, `class="differs">retry (retry) after`) {
		t.Errorf("the decisions are not compared with the only document: %s", page)
	}
	s.publish("mail", 0, fmt.Sprintf(shopText, 4), "first", nil)
	if page := html.UnescapeString(s.get(path)); strings.Contains(page, "Under ") || !strings.Contains(page, "document=mail#attempts") {
		t.Errorf("with two documents, one is chosen without being asked for: %s", page)
	}
	if page := html.UnescapeString(s.get(path + "?document=mail")); !strings.Contains(page, "Under mail now") {
		t.Errorf("the document that was asked for is not compared: %s", page)
	}
}
