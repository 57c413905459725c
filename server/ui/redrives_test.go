package ui_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tenetdev/tenet/job"
)

// work runs a worker on the queue mail until the test ends.
func (s *site) work(handle func(context.Context, job.Job[map[string]any]) error) {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := job.NewWorker(s.db.Jobs(), job.WithName("host-3"), job.WithQueues(map[string]int{"mail": 50}), job.WithPoll(10*time.Millisecond), job.WithLogger(slog.New(slog.DiscardHandler)))
	job.Handle(w, "email:send", handle)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			s.t.Error(err)
		}
	})
}

func succeed(context.Context, job.Job[map[string]any]) error { return nil }

// redrive asks for a redrive with the form, and returns its ID.
func (s *site) redrive(filter string, form url.Values) string {
	s.t.Helper()
	page := s.post("do/dlq/redrive?filter="+url.QueryEscape(filter), form)
	_, rest, _ := strings.Cut(page, "tenet redrives inspect ")
	if len(rest) < 36 {
		s.t.Fatalf("no redrive: %s", page)
	}
	return rest[:36]
}

func TestU2DeadLettersAreGroupedByCause(t *testing.T) {
	s := newSite(t, nil)
	if page := s.get("dlq"); !strings.Contains(page, "No dead jobs") {
		t.Error(page)
	}
	s.dead(7, "email:send", "smtp: 550 mailbox %d is unavailable")
	s.dead(3, "email:send", "smtp: 421 try again later %d")
	page := html.UnescapeString(s.get("dlq"))
	for _, want := range []string{"smtp: <n> mailbox <n> is unavailable", ">7</a>", "smtp: <n> try again later <n>", ">3</a>", "Redrive all 10…", "state%3Adead+cause%3A"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if page := s.get("dlq?filter=" + url.QueryEscape("queue:other")); !strings.Contains(page, "No dead job matches") {
		t.Error(page)
	}
}

func TestU2ARedriveStopsByItselfAndSaysWhy(t *testing.T) {
	s := newSite(t, nil)
	s.dead(100, "email:send", "smtp: 550 mailbox %d is unavailable")
	s.work(func(context.Context, job.Job[map[string]any]) error {
		return job.Unrecoverable(errors.New("still broken"))
	})
	id := s.redrive("queue:mail", url.Values{"canary": {"5"}, "rate": {"0"}, "stop": {"20"}, "count": {"100"}})
	b := s.tab(t, wide)
	b.open("redrives/" + id)
	b.wait(`document.querySelector("#story")?.textContent.includes("Stopped by itself")`)
	b.accessible("a stopped redrive")
	if text := b.text("#content"); !strings.Contains(text, "95 jobs were not released and stay dead") || !strings.Contains(text, "The first that died again") {
		t.Error(text)
	}
}

func TestU4ARedriveIsPausedResumedAndUndone(t *testing.T) {
	s := newSite(t, nil)
	s.dead(100, "email:send", "smtp: 550 mailbox %d is unavailable")
	id := s.redrive("", url.Values{"canary": {"0"}, "rate": {"0.001"}, "stop": {"0"}, "count": {"100"}})
	at := "do/redrives/" + id + "/"
	if page := s.get(at + "pause"); !strings.Contains(page, "No further job is released") || !strings.Contains(page, "tenet redrives pause "+id) {
		t.Error(page)
	}
	for _, step := range []struct {
		action string
		form   url.Values
		want   string
	}{
		{"pause", nil, "Paused: no further job is released."}, {"resume", nil, "Releasing: "}, {"rate", url.Values{"rate": {"0.002"}}, "at most 0.002/s"}, {"undo", nil, "Aborted by"},
	} {
		if page := html.UnescapeString(s.post(at+step.action, step.form)); !strings.Contains(page, step.want) {
			t.Errorf("%s: no %q in\n%s", step.action, step.want, page)
		}
	}
	if page := html.UnescapeString(s.post(at+"rate", url.Values{"rate": {"fast"}})); !strings.Contains(page, "write a number from 0 to 1,000,000") {
		t.Error(page)
	}
}

func TestU4TheRateOfARedriveIsAnyNumberInABrowser(t *testing.T) {
	s := newSite(t, nil)
	s.dead(100, "email:send", "smtp: 550 mailbox %d is unavailable")
	id := s.redrive("", url.Values{"canary": {"0"}, "rate": {"0.001"}, "stop": {"0"}, "count": {"100"}})
	b := s.tab(t, wide)
	for _, rate := range []string{"0.004", "0.01"} {
		b.open("do/redrives/" + id + "/rate")
		value[bool](b, `document.querySelector("#f-rate").value = "`+rate+`", true`)
		b.do(chromedp.Click(chromedp.CSS(`#content button.primary`)))
		b.wait(`document.querySelector(".notice")?.textContent === "The rate is ` + rate + `/s."`)
	}
}

// walk counts the interactions of a person with a tab.
type walk struct {
	*tab
	steps int
}

func (w *walk) step(what string) {
	w.t.Helper()
	w.steps++
	w.t.Logf("%d. %s: %s", w.steps, what, value[string](w.tab, `location.pathname + location.search`))
}

// manyDead seeds dead jobs of one cause, and returns their number: the 12,000 of the story, or fewer in short tests.
func (s *site) manyDead() int {
	n := 12_000
	if testing.Short() {
		n = 1_200
	}
	s.dead(n, "email:send", "smtp: 550 mailbox %d is unavailable")
	return n
}

// ends checks that the redrive ends well, and that it took no more than eight interactions.
func (w *walk) ends(n int) {
	w.t.Helper()
	want := "Finished: " + grouped(n) + " jobs have completed, and none died again."
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if value[bool](w.tab, `Boolean(document.querySelector("#story")?.textContent.includes("Finished"))`) {
			break
		}
		value[bool](w.tab, `new Promise((done) => { new MutationObserver(() => done(true)).observe(document.querySelector("#content"), {childList: true, subtree: true, characterData: true, attributes: true}); setTimeout(() => done(false), 5000); })`)
	}
	w.wait(`document.querySelector("#story")?.textContent.includes("Finished")`)
	if text := w.text("#story"); !strings.Contains(text, want) {
		w.t.Errorf("the redrive: %s", text)
	}
	if w.steps > 8 {
		w.t.Errorf("%d interactions", w.steps)
	}
}

// grouped writes a number below a million with a separator of thousands.
func grouped(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }

func TestU4ADeadJobIsExplainedAndAllLikeItRedrivenInEightInteractions(t *testing.T) {
	s := newSite(t, nil)
	n := s.manyDead()
	s.work(succeed)
	w := &walk{tab: s.tab(t, wide)}
	w.open("")
	w.do(chromedp.Click(chromedp.CSS(`nav.side a[href$="/dlq"]`)))
	w.wait(`document.querySelector("th.cause a")`)
	w.step("the dead letters, grouped by cause")
	w.do(chromedp.Click(chromedp.CSS(`th.cause a`)))
	w.wait(`document.querySelector("#story")?.textContent.includes("This job is dead because its last error must not be retried")`)
	w.step("a job, and why it is dead")
	w.do(chromedp.Click(chromedp.CSS(`#story a[href*="dlq/redrive"]`)))
	w.wait(`document.querySelector("#dialog[open] h1")?.textContent === "Redrive ` + grouped(n) + ` jobs?"`)
	w.accessible("the form of a redrive")
	w.step("what a redrive would do")
	value[bool](w.tab, `document.querySelector("#f-rate").value = "", true`)
	w.do(chromedp.SendKeys(chromedp.CSS("#f-rate"), "10000"))
	w.step("a rate")
	w.do(chromedp.SendKeys(chromedp.CSS("#f-typed"), fmt.Sprint(n)))
	w.step("the exact count, typed")
	w.do(chromedp.Click(chromedp.CSS(`#dialog button.primary`)))
	w.wait(`location.pathname.startsWith("/ui/redrives/")`)
	w.step("the redrive, followed to its end")
	w.ends(n)
	w.accessible("a finished redrive")
}

func TestU3TheSameByKeyboardAlone(t *testing.T) {
	s := newSite(t, nil)
	n := s.manyDead()
	s.work(succeed)
	w := &walk{tab: s.tab(t, wide)}
	w.open("")
	w.keys("g", "d")
	w.wait(`location.pathname === "/ui/dlq" && document.querySelector("th.cause a")`)
	w.step("g d: the dead letters, grouped by cause")
	w.keys("j", kb.Enter)
	w.wait(`document.querySelector("#story")?.textContent.includes("This job is dead because its last error must not be retried")`)
	w.step("j Enter: a job, and why it is dead")
	w.tabTo("Redrive all " + grouped(n) + " like it…")
	w.keys(kb.Enter)
	w.wait(`document.querySelector("#dialog[open] h1")?.textContent === "Redrive ` + grouped(n) + ` jobs?" && document.activeElement.id === "f-canary"`)
	w.step("Tab Enter: what a redrive would do")
	w.keys(kb.Tab, "10000") // the focus selects what the field holds
	w.step("Tab: a rate")
	w.keys(kb.Tab, kb.Tab, fmt.Sprint(n))
	w.step("Tab: the exact count, typed")
	w.keys(kb.Enter)
	w.wait(`location.pathname.startsWith("/ui/redrives/")`)
	w.step("Enter: the redrive, followed to its end")
	w.ends(n)
}

func TestU4TheButtonForAllDeadJobsDoesNotCountTheShownOnes(t *testing.T) {
	s := newSite(t, nil)
	var list []job.Request
	var types []string
	for i := range 201 {
		types = append(types, fmt.Sprint("type-", i))
		list = append(list, job.Request{Type: types[i], Queue: "mail"})
	}
	s.enqueue(list...)
	s.end("mail", len(list), job.KindDead, types...)
	has(t, s.get("dlq"), "Redrive all…", "These are the 200 causes with the most jobs.")
	has(t, s.get("do/dlq/redrive"), "Redrive 201 jobs")
}
