package ui_test

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tenetdev/tenet/job"
)

// seedAll fills the site for everyPage.
func (s *site) seedAll() {
	s.t.Helper()
	s.seed()
	s.seedPolicies()
	s.seedRecords()
	s.seedFlows()
}

// everyPage lists a path of every page.
func (s *site) everyPage() map[string]string {
	jobs, err := s.db.Jobs().List(s.t.Context(), deadJobs, "", 1)
	if err != nil || len(jobs) == 0 {
		s.t.Fatal("no dead job", err)
	}
	list := map[string]string{
		"overview": "", "queues": "queues", "job-story": "jobs/" + s.storied() + "?payload=show", "jobs": "jobs?filter=state%3Adead", "jobs-fault": "jobs?filter=mailbox", "jobs-retry": "do/jobs/retry?filter=state%3Adead",
		"job": "jobs/" + jobs[0].ID, "components": "components",
	}
	list["dlq"], list["redrives"], list["make-redrive"] = "dlq", "redrives", "do/dlq/redrive?filter=queue%3Amail"
	list["redrive"] = "redrives/" + s.redrive("queue:documents", url.Values{"canary": {"2"}, "rate": {"0.5"}, "stop": {"20"}, "count": {"5"}})
	maps.Copy(list, policyPaths)
	maps.Copy(list, operationPaths)
	maps.Copy(list, flowPaths)
	list["flow-job"], list["limited-job"] = "jobs/"+s.node("nightly", "load-warehouse").JobID+"?outputs=show", "jobs/"+s.one("state:waiting queue:exports").ID
	return list
}

func TestU3EveryPageIsAccessibleInLightAndDarkAtEveryWidth(t *testing.T) {
	s := newSite(t, nil)
	s.seedAll()
	pages := s.everyPage()
	// With -short, a page is opened once, in the first look. A low window saves painting where only the width is checked. Rules of axe that
	// no width and no colour changes are checked once.
	narrow, desk := look{320, 640, true, true}, look{1280, 900, false, true}
	looks := []look{narrow, {360, 50, false, true}, {3840, 50, false, true}, desk}
	if !testing.Short() {
		looks = []look{narrow, desk, {360, 740, false, true}, {360, 740, true, true}, {1280, 900, true, true},
			{2560, 1440, false, true}, {2560, 1440, true, true}, {3840, 2160, false, true}, {3840, 2160, true, true}}
	}
	copies := map[look]map[string]pageCopy{narrow: {}, desk: {}}
	for names := range slices.Chunk(slices.Sorted(maps.Keys(pages)), 12) { // of a tab, which lasts longer than a page
		b := s.tab(t, wide)
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				b.t = t
				for i, l := range looks {
					b.show(l)
					if i == 0 || !testing.Short() { // as in a window of its own
						b.open(pages[name])
						b.fits(name)
						value[bool](b, `document.querySelectorAll("#content details:not([open]), nav details:not([open])").forEach((d) => d.open = true), true`) // the audit trail of a job, for one
					}
					b.fits(name)
					switch of := copies[l]; {
					case !testing.Short():
						b.accessible(name)
					case of != nil:
						of[name] = b.copy()
					}
				}
				b.blame(name)
			})
		}
		b.t = t
		b.close()
	}
	for _, name := range slices.Sorted(maps.Keys(copies[desk])) {
		inspect(t, name, copies[desk][name], allRules)
	}
	for _, name := range slices.Sorted(maps.Keys(copies[narrow])) {
		inspect(t, name, copies[narrow][name], `["color-contrast", "target-size", "scrollable-region-focusable", "link-name", "button-name", "label"]`)
	}
}

// fits fails the test if the page is wider than its window, and stays so: charts change their size with the next frame.
func (b *tab) fits(name string) {
	b.t.Helper()
	const excess = `document.documentElement.scrollWidth - innerWidth`
	if value[float64](b, excess) <= 0 {
		return
	}
	b.do(chromedp.Sleep(200 * time.Millisecond))
	if wide := value[float64](b, excess); wide > 0 {
		b.t.Errorf("%s: the page is %v px wider than the window of %d px", name, wide, b.look.width)
	}
}

func TestU1EveryPageReadsWithoutScripts(t *testing.T) {
	s := newSite(t, nil)
	s.seedAll()
	b := s.tab(t, look{width: 1280, height: 900})
	b.do(chromedp.Navigate(b.url + "/ui/"))
	for name, path := range s.everyPage() {
		page := s.get(path)
		if strings.Contains(page, "onclick=") || strings.Contains(page, " style=") || regexp.MustCompile(`<script(?: nonce="\w+")?>`).MatchString(page) {
			t.Errorf("%s has something inline", name)
		}
		value[bool](b, fmt.Sprintf(`document.body.replaceWith(new DOMParser().parseFromString(%s, "text/html").body), true`, quote(t, page))) // under the same styles
		if shown := value[string](b, `document.documentElement.classList + [...document.querySelectorAll("#content h1")].map((h) => h.checkVisibility() && h.getBoundingClientRect().height > 10 ? h.innerText : "")`); shown == "" || strings.HasPrefix(shown, "scripts") {
			t.Errorf("%s has no heading that is seen, or scripts run: %q", name, shown)
		}
		if text := value[string](b, `document.querySelector("#content").innerText`); len(text) < 60 {
			t.Errorf("%s shows only %q", name, text)
		}
	}
}

func TestU3KeysReachEverything(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	b := s.tab(t, wide)
	b.open("")
	b.keys("/")
	if id := value[string](b, `document.activeElement.id`); id != "search" {
		t.Fatalf("/ focuses %q", id)
	}
	b.write("state:dead")
	b.keys(kb.Enter)
	b.wait(`location.search === "?filter=state%3Adead" && document.querySelectorAll("#content tbody tr").length > 3`)
	b.do(chromedp.Focus(chromedp.CSS("#main")))
	b.keys("j", "j")
	if row := value[int](b, `[...document.querySelectorAll("#content tbody tr")].findIndex((r) => r.contains(document.activeElement))`); row != 1 {
		t.Errorf("j twice reaches row %d", row)
	}
	b.keys("k", kb.Enter)
	b.wait(`location.pathname.startsWith("/ui/jobs/")`)
	b.wait(`document.readyState === "complete"`)
	b.keys("?")
	b.wait(`document.querySelector("#shortcuts").open`)
	b.keys(kb.Escape)
	b.wait(`!document.querySelector("#shortcuts").open`)
	b.keys("g", "q")
	b.wait(`location.pathname === "/ui/queues" && document.readyState === "complete"`)
	b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.wait(`document.querySelector("#palette").open`)
	b.write("jobs")
	b.keys(kb.Enter)
	b.wait(`location.pathname === "/ui/jobs"`)
}

func TestU4AQueueIsPausedAfterAPreview(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	b := s.tab(t, wide)
	b.open("queues")
	b.do(chromedp.Focus(chromedp.CSS(`a[href*="do/queues/mail/pause"]`)))
	b.keys(kb.Enter)
	b.wait(`document.querySelector("#dialog").open && document.activeElement.name === "reason"`)
	b.accessible("the preview")
	b.write("hi")
	b.keys(kb.Enter)
	b.wait(`document.querySelector(".notice")?.textContent.includes("mail is paused")`)
	if text := b.text("#content table"); !strings.Contains(text, "paused") || !strings.Contains(text, "hi") {
		t.Errorf("the queues: %s", text)
	}
	if line := b.text(".command code"); !strings.HasPrefix(line, "tenet ") {
		t.Errorf("the command line: %s", line)
	}
}

func TestU1AChangeIsSeenWithinTwoSecondsAndWhatIsTypedStays(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	b := s.tab(t, wide)
	b.open("jobs?filter=queue%3Afresh")
	b.do(chromedp.Focus(chromedp.CSS("#filter")))
	b.write("xy")
	seenWithin(t, 2*time.Second, func(i int) {
		s.enqueue(job.Request{Type: fmt.Sprintf("change-%d", i), Queue: "fresh", Payload: []byte(`{}`)})
	}, func(i int) {
		b.wait(fmt.Sprintf(`document.querySelector("#content tbody")?.textContent.includes("change-%d")`, i))
	})
	if typed := value[string](b, `document.activeElement.id + " " + document.activeElement.value`); typed != "filter xyqueue:fresh" {
		t.Errorf("the field has become %q", typed)
	}
}

func TestU3SingleKeyShortcutsCanBeTurnedOff(t *testing.T) {
	s := newSite(t, nil)
	b := s.tab(t, wide)
	b.open("queues")
	b.keys("?")
	b.wait(`document.querySelector("#shortcuts").open`)
	b.accessible("the shortcuts")
	b.tabTo("#single-keys")
	b.keys(" ", kb.Escape)
	b.wait(`!document.querySelector("#shortcuts").open`)
	ignored := func() {
		t.Helper()
		for _, key := range []string{"/", "?", "t", "g", "q"} {
			b.keys(key)
		}
		if changed := value[bool](b, `document.activeElement.matches("#search") || document.querySelector("dialog[open]") !== null || document.documentElement.dataset.theme !== undefined || location.pathname !== "/ui/queues"`); changed {
			t.Error("a single key still does something")
		}
	}
	ignored()
	b.open("queues") // the browser remembers it
	ignored()
	b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.wait(`document.querySelector("#palette").open`)
	b.write("keyboard")
	b.keys(kb.Enter)
	b.wait(`document.querySelector("#shortcuts").open`)
	if value[bool](b, `document.querySelector("#single-keys").checked`) {
		t.Error("the setting is not shown")
	}
	b.tabTo("#single-keys")
	b.keys(" ", kb.Escape)
	b.wait(`!document.querySelector("#shortcuts").contains(document.activeElement)`)
	b.keys("g", "j")
	b.wait(`location.pathname === "/ui/jobs"`)
}

func TestU3LongNamesFitNarrowPages(t *testing.T) {
	s := newSite(t, nil)
	long := strings.Repeat("W", 120)
	id := s.enqueue(job.Request{Type: long, Queue: long, Payload: []byte(`{"` + long + `":"` + long + `"}`)})[0].ID
	b := s.tab(t, look{width: 320, height: 800, scripts: true})
	for _, path := range []string{"queues", "jobs/" + id + "?payload=show", "do/queues/" + long + "/pause", "do/jobs/delete?id=" + id, "jobs?filter=" + long} {
		b.open(path)
		if width := value[int](b, `document.documentElement.scrollWidth`); width > 320 {
			t.Errorf("%s: %d px wide", path, width)
		}
	}
}
