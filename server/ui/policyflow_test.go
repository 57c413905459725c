package ui_test

import (
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/policystore"
)

// fill replaces the text of an input.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(selector), text))
}

// press clicks a button or link that shows a text, and waits for the page that it leads to.
func (b *tab) press(text string) {
	b.t.Helper()
	value[bool](b, `(document.body.dataset.left = "no", true)`)
	found := value[bool](b, `((all) => { const e = all.find((e) => e.textContent.trim() === `+quote(b.t, text)+` && !e.classList.contains("hidden") && e.offsetParent); e?.click(); return !!e; })([...document.querySelectorAll("dialog[open] button, dialog[open] a")].concat([...document.querySelectorAll("main button, main a")]))`)
	if !found {
		b.t.Fatalf("no button %q in\n%s", text, b.text("main"))
	}
}

// shows waits until the content holds a text.
func (b *tab) shows(text string) {
	b.t.Helper()
	b.wait(`(document.querySelector("main")?.innerText ?? "").includes(` + quote(b.t, text) + `) || (document.querySelector("dialog[open]")?.innerText ?? "").includes(` + quote(b.t, text) + `)`)
}

func TestU2ATextWithAFaultIsMendedReviewedAndPublished(t *testing.T) {
	s := newSite(t, nil)
	b := s.tab(t, wide)
	b.open("policies")
	b.press("New document")
	b.shows("Programs follow the document under this name")
	b.fill("#name", "pay")
	b.fill("#message", "the first one")
	b.fill("#text", "version: 1\npolicies:\n  pay.Charge:\n    retry: {max_attempts: 0}\n")
	b.press("Review")
	b.shows("1 fault to mend")
	if at := b.text(".faults"); !strings.Contains(at, "Line 4, column 27") {
		t.Errorf("the fault is elsewhere: %s", at)
	}
	if caret := b.text(".faults pre"); !strings.HasSuffix(strings.TrimRight(caret, "\n"), strings.Repeat(" ", 26)+"^") {
		t.Errorf("the caret is elsewhere:\n%s", caret)
	}
	for selector, want := range map[string]string{"#name": "pay", "#message": "the first one", "#text": "version: 1\npolicies:\n  pay.Charge:\n    retry: {max_attempts: 0}\n"} {
		if got := value[string](b, `document.querySelector("`+selector+`").value`); got != want {
			t.Errorf("%s was lost: %q", selector, got)
		}
	}
	b.accessible("faults")
	b.press("Line 4, column 27")
	if at := value[string](b, `((t) => t.value.slice(t.selectionStart, t.selectionEnd))(document.activeElement)`); !strings.Contains(at, "max_attempts: 0") {
		t.Errorf("selected: %q", at)
	}
	b.fill("#text", "version: 1\npolicies:\n  pay.Charge:\n    retry: {max_attempts: 50}\n")
	b.press("Review")
	b.shows("1 warning")
	b.accessible("a review with a warning")
	b.press("Publish revision 1")
	if value[bool](b, `document.querySelector("form.editor").checkValidity()`) {
		t.Error("a warning need not be accepted")
	}
	b.do(chromedp.Click(chromedp.CSS("[name=accept_warnings]")))
	b.press("Publish revision 1")
	b.shows("Revision 1 is in force")
	if d := s.document("pay"); d.Current != 1 {
		t.Errorf("%+v", d)
	}
	r, err := s.api().Documents().Revision(t.Context(), "pay", 1)
	if err != nil || r.Message != "the first one" || strings.Contains(r.Body, "\r") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestU2APublicationThatMeetsAnotherKeepsTheTextAndShowsWhatChanged(t *testing.T) {
	s := newSite(t, nil)
	text := func(attempts string) string {
		return "version: 1\npolicies: {a.B: {retry: {max_attempts: " + attempts + "}}}\n"
	}
	s.publish("pay", 0, text("3"), "first", nil)
	b := s.tab(t, wide)
	b.open("do/policies/pay/publish")
	b.fill("#text", text("5"))
	b.press("Review")
	b.shows("Revision 2 replaces revision 1")
	s.publish("pay", 1, text("4"), "somebody else's", nil)
	b.press("Publish revision 2")
	b.shows("Nothing was published")
	b.shows("somebody else's")
	if got := value[string](b, `document.querySelector("#text").value`); got != text("5") {
		t.Errorf("the text was lost: %q", got)
	}
	if change := b.text("#conflict"); !strings.Contains(change, "-policies: {a.B: {retry: {max_attempts: 3}}}") {
		t.Errorf("not what changed: %s", change)
	}
	if change := b.text("#review"); !strings.Contains(change, "-policies: {a.B: {retry: {max_attempts: 4}}}") {
		t.Errorf("not what would change: %s", change)
	}
	b.accessible("a conflict")
	b.fill("#text", text("6"))
	b.press("Publish revision 3")
	b.shows("The text has changed since the review")
	b.press("Publish revision 3")
	b.shows("Revision 3 is in force")
	if d := s.document("pay"); d.Current != 3 {
		t.Errorf("%+v", d)
	}
}

func TestU3ARevisionIsPublishedAndBroughtBackByKeyboardAlone(t *testing.T) {
	s := newSite(t, nil)
	s.publish("pay", 0, "version: 1\n", "first", nil)
	b := s.tab(t, wide)
	b.open("")
	b.keys("g", "p")
	b.shows("Documents that say")
	b.wait(`document.readyState === "complete"`)
	b.keys("j", kb.Enter)
	b.shows("Revision 1 is in force")
	b.tabTo("Edit")
	b.keys(kb.Enter)
	b.shows("The text starts from revision 1")
	b.tabTo("#text")
	b.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)))
	b.keys("version: 1\ndefaults: {calls: {retry: {max_attempts: 4}}}\n", kb.Tab, "by keyboard", kb.Enter)
	b.shows("Revision 2 replaces revision 1")
	b.tabTo("Publish revision 2")
	b.keys(kb.Enter)
	b.shows("Revision 2 is in force")
	b.tabTo("Revisions")
	b.keys(kb.Enter)
	b.shows("by keyboard")
	b.tabTo("Bring back")
	b.keys(kb.Enter)
	b.shows("Bring back revision 1 of pay?")
	b.tabTo("Bring back revision 1")
	b.keys(kb.Enter)
	b.shows("Revision 3 is in force")
	r, err := s.api().Documents().Revision(t.Context(), "pay", 3)
	if err != nil || r.Restores != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestU1ARolloutIsStartedWatchedLiveAndAborted(t *testing.T) {
	s := newSite(t, nil)
	s.publish("pay", 0, "version: 1\n", "first", nil)
	follower, err := controlplane.NewServer(controlplane.ServerOptions{
		URL: s.http.URL, Document: "pay", ClientID: "checkout-1", ReportInterval: 50 * time.Millisecond, MinBackoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = follower.Close() }()
	b := s.tab(t, wide)
	b.open("do/policies/pay/publish")
	b.fill("#text", "version: 1\ndefaults: {calls: {retry: {max_attempts: 4}}}\n")
	b.do(chromedp.Click(chromedp.CSS("[name=delivery][value=steps]")), chromedp.Click(chromedp.CSS("fieldset summary")))
	b.fill("#p-steps", "100%")
	b.fill("#p-failure_share", "2")
	b.press("Review")
	b.shows("in steps: 100%")
	b.shows("--rollout 100% --max-failures 2")
	b.press("Publish revision 2")
	b.shows("is not a share such as 1%")
	b.fill("#p-failure_share", "2%")
	b.press("Publish revision 2")
	b.shows("Revision 2 of pay is rolled out in 1 step")
	b.shows("Step 1 of 1: 100 % of clients get revision 2")
	b.shows("1 client runs revision 2") // live: the client applies it after the page was opened
	if d := s.document("pay"); d.Rollout.Plan.Thresholds.FailureShare != 0.02 {
		t.Errorf("%+v", d.Rollout.Plan)
	}
	b.press("Pause")
	b.shows("Pause the rollout of pay?")
	b.press("Pause the rollout")
	b.shows("Paused")
	b.press("Abort")
	b.shows("Revision 2 is taken back from 1 client")
	b.press("Abort the rollout")
	b.shows("The rollout of revision 2 was aborted at step 1 of 1")
	b.shows("Revision 3 is in force")
	b.shows("0 clients run revision 2")
}

// tabTo presses the tabulator until an element has the focus: one that a selector names, or that shows a text.
func (b *tab) tabTo(what string) {
	b.t.Helper()
	b.wait(`document.readyState === "complete"`)
	for range 200 {
		b.keys(kb.Tab)
		if value[bool](b, `((e) => e !== document.body && (e.textContent.trim() === `+quote(b.t, what)+` || `+quote(b.t, what)+`.startsWith("#") && e.matches(`+quote(b.t, what)+`)))(document.activeElement)`) {
			return
		}
	}
	b.t.Fatalf("%s cannot be reached by the keyboard", what)
}

func TestU4AnotherRolloutOrTrialThanTheOneShownIsNotChanged(t *testing.T) {
	s := newSite(t, nil)
	s.seedPolicies()
	for path, shown := range map[string]int64{"policies/shop/rollout/pause": s.document("shop").Rollout.Candidate, "policies/mail/trial/end": s.document("mail").Trial.Revision} {
		hidden := `name="revision" value="%d"`
		has(t, s.get("do/"+path), fmt.Sprintf(hidden, shown))
		earlier := url.Values{"key": {path}, "revision": {strconv.FormatInt(shown-1, 10)}}
		has(t, s.post("do/"+path, earlier), fmt.Sprintf("another one has begun meanwhile: it is revision %d now, not %d", shown, shown-1), fmt.Sprintf(hidden, shown))
		if d := s.document("shop"); d.Rollout.State != policystore.Running {
			t.Errorf("%s: %s", path, d.Rollout.State)
		}
		if s.document("mail").Trial == nil {
			t.Errorf("%s ended the trial", path)
		}
	}
	now := strconv.FormatInt(s.document("mail").Trial.Revision, 10)
	has(t, s.post("do/policies/mail/trial/end", url.Values{"key": {"b"}, "revision": {now}}), "The trial of mail has ended.")
}

func TestU4AFreezeSaysWhichReasonItReplaces(t *testing.T) {
	s := newSite(t, nil)
	s.publish("shop", 0, "version: 1\n", "first", nil)
	s.post("do/policies/shop/freeze", url.Values{"key": {"a"}, "reason": {"the sale is on."}})
	has(t, s.get("do/policies/shop/freeze"), "froze it already: the sale is on. Your reason replaces this one.")
}
