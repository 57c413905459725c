package ui_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tenetdev/tenet/job"
)

// filtered is the page of a search.
func filtered(text string) string { return "jobs?filter=" + url.QueryEscape(text) }

// dead enqueues jobs and makes them dead at once.
func (s *site) dead(n int, jobType, problem string) {
	s.t.Helper()
	ctx := s.t.Context()
	store := s.db.Jobs()
	for left := n; left > 0; left -= 1000 {
		requests := make([]job.Request, min(left, 1000))
		for i := range requests {
			raw, _ := json.Marshal(map[string]any{"n": i})
			requests[i] = job.Request{Type: jobType, Queue: "mail", Payload: raw}
		}
		s.enqueue(requests...)
		claim := job.Claim{Worker: "seed", Queues: []job.Slots{{Queue: "mail", Free: len(requests)}}, Types: []string{jobType}, Lease: time.Minute}
		records, err := store.Claim(ctx, claim)
		if err != nil || len(records) != len(requests) {
			s.t.Fatal(len(records), err)
		}
		settled := make([]job.Settlement, len(records))
		for i, r := range records {
			settled[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindDead, Reason: "non_retryable", Error: fmt.Sprintf(problem, i)}
		}
		for _, err := range store.Settle(ctx, settled) {
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

func TestU2ASearchShowsItsFaultWithThePlaceAndWhatMayBeMeant(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	page := html.UnescapeString(s.get(filtered("state:dead mailbox")))
	for _, want := range []string{"Character 12", "<mark>mailbox</mark>", url.QueryEscape("state:dead error:mailbox")} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if page := s.get(filtered("state:daed")); !strings.Contains(page, "did you mean dead?") {
		t.Error(page)
	}
	jobs, err := s.db.Jobs().List(t.Context(), deadJobs, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	if page := s.get(filtered(jobs[0].ID)); !strings.Contains(page, "choose-"+jobs[0].ID) {
		t.Errorf("an ID alone does not find its job: %s", page)
	}
}

func TestU2QuickFiltersShowTheKeptCounts(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	page := html.UnescapeString(s.get(filtered("queue:mail state:dead")))
	stats, err := s.db.Jobs().Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`filter=state%%3Adead+queue%%3Amail" aria-current="true">dead <span class="count">%d</span>`, stats["mail"].Dead)
	if !strings.Contains(page, want) {
		t.Errorf("no %q in\n%s", want, page)
	}
	if page := s.get(filtered("error:smtp")); strings.Contains(page, `class="count"`) {
		t.Error("a search that is not counted shows counts")
	}
}

func TestU2SearchIsCompletedByKeyboard(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	b := s.tab(t, wide)
	b.open("jobs")
	b.keys("/")
	b.wait(`document.activeElement.id === "filter"`)
	b.keys("s", "t", "a")
	b.wait(`document.querySelector("#suggestions li")?.dataset.text === "state:"`)
	b.keys(kb.ArrowDown, kb.Enter)
	b.wait(fmt.Sprintf(`document.querySelector("#filter").value === "state:" && document.querySelectorAll("#suggestions li").length === %d`, len(job.States())))
	b.keys("d", "e")
	b.wait(`document.querySelectorAll("#suggestions li").length === 1`)
	b.accessible("suggestions")
	b.keys(kb.ArrowDown)
	if got := value[string](b, `document.getElementById(document.querySelector("#filter").getAttribute("aria-activedescendant")).textContent`); !strings.Contains(got, "state:dead") {
		t.Errorf("the active suggestion: %q", got)
	}
	b.keys(kb.Enter, "q", "u", "e", "u", "e", ":")
	b.wait(`[...document.querySelectorAll("#suggestions li code")].map((c) => c.textContent).join() === "queue:documents,queue:mail"`)
	b.keys(kb.ArrowUp, kb.Enter, kb.Enter)
	b.wait(`location.search === "?filter=state%3Adead+queue%3Amail+" || location.search === "?filter=state%3Adead+queue%3Amail"`)
	b.wait(`document.querySelector("table[data-rows]") !== null`)
}

func TestU4ABulkActionIsPreviewedExactlyAndRunsInBatches(t *testing.T) {
	s := newSite(t, nil)
	s.dead(2_345, "email:send", "smtp: 550 mailbox %d is unavailable")
	s.enqueue(job.Request{Type: "email:send", Queue: "mail", Payload: []byte(`{}`)})
	b := s.tab(t, wide)
	b.open(filtered("type:email:send"))
	b.do(chromedp.Click(chromedp.CSS(`#chosen button[formaction$="retry"]`)))
	b.wait(`document.querySelector("#dialog[open] h1")?.textContent === "Retry 2,345 jobs?"`)
	b.accessible("preview")
	if text := b.text("#dialog"); !strings.Contains(text, "Type 2,345 to confirm") || !strings.Contains(text, "mailbox") {
		t.Errorf("preview: %s", text)
	}
	b.keys("2345", kb.Enter)
	b.wait(`document.querySelector(".notice")?.textContent === "Retried 2,345 jobs."`)
	stats, err := s.db.Jobs().Stats(t.Context())
	if err != nil || stats["mail"].Ready != 2_346 || stats["mail"].Dead != 0 {
		t.Errorf("%+v, %v", stats["mail"], err)
	}
}

func TestU4ManyJobsAreChangedOnlyOnceTheirNumberIsTyped(t *testing.T) {
	s := newSite(t, nil)
	const n = 1001
	s.dead(n, "email:send", "smtp: 550 mailbox %d is unavailable")
	act := "do/jobs/retry?return=/ui/jobs&filter=state:dead"
	for _, typed := range []string{"", "1000", "all"} {
		has(t, s.post(act, url.Values{"count": {"1001"}, "typed": {typed}}), "Type the number 1001 to confirm")
		if stats, err := s.db.Jobs().Stats(t.Context()); err != nil || stats["mail"].Dead != n {
			t.Fatalf("typed %q: %+v, %v", typed, stats["mail"], err)
		}
	}
	has(t, s.post(act, url.Values{"typed": {"1001"}}), "A change of jobs states how many it changes.")
	has(t, s.post(act, url.Values{"count": {"1001"}, "typed": {"1,001"}}), "Retried 1,001 jobs.")
}

func TestU4SelectedRowsAreChangedAndNoOthers(t *testing.T) {
	s := newSite(t, nil)
	s.dead(3, "email:send", "smtp: 550 mailbox %d is unavailable")
	b := s.tab(t, wide)
	b.open(filtered("state:dead"))
	b.keys("j", "x", "j", "x")
	b.wait(`document.querySelector("#chosen-count").textContent === "2 selected:"`)
	b.do(chromedp.Click(chromedp.CSS(`#chosen button[formaction$="delete"]`)))
	b.wait(`document.querySelector("#dialog[open] h1")?.textContent === "Delete 2 jobs?"`)
	if text := b.text("#dialog .command"); !strings.Contains(text, "tenet jobs delete 0") {
		t.Errorf("command: %s", text)
	}
	b.do(chromedp.Click(chromedp.CSS(`#dialog button.danger`)))
	b.wait(`document.querySelector(".notice")?.textContent === "Deleted 2 jobs."`)
	if jobs, err := s.db.Jobs().List(t.Context(), deadJobs, "", 10); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs are left, %v", len(jobs), err)
	}
}

func TestU4RowsThatWereSelectedAreNotOthersAfterGoingBack(t *testing.T) {
	s := newSite(t, nil)
	s.dead(3, "email:send", "smtp: 550 mailbox %d is unavailable")
	b := s.tab(t, wide)
	b.open(filtered("state:dead"))
	const selected = `[...document.querySelectorAll("#chosen input[name=id]:checked")].map((b) => b.value).join()`
	b.keys("j", "j", "x")
	chosen := value[string](b, selected)
	b.keys(kb.Enter)
	b.wait(`location.pathname === "/ui/jobs/" + ` + quote(b.t, chosen) + ` && document.readyState === "complete"`)
	s.dead(1, "email:send", "smtp: 421 try again later %d") // which is the first row now
	b.do(chromedp.NavigateBack())
	b.wait(`document.querySelectorAll("#chosen input[name=id]").length === 4 && document.readyState === "complete"`)
	if got := value[string](b, selected); got != "" && got != chosen {
		t.Errorf("%s was selected, and is %s after going back", chosen, got)
	}
}

func TestU2ASearchWithoutAnIndexSaysHowToGoOn(t *testing.T) {
	s := newSite(t, nil)
	s.dead(300, "email:send", "smtp: 550 mailbox %d is unavailable")
	page := s.get(filtered("payload.n:7"))
	found := strings.Contains(page, "choose-") || strings.Contains(page, "Search on") // on a busy machine it takes more than a moment
	if strings.Contains(page, "data-live") || !found {
		t.Errorf("a search without an index follows changes: %s", page)
	}
}
