package ui_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tenetdev/tenet/internal/debian"
)

//go:embed testdata/axe.min.js
var axe string

// endChromium ends the browser, which removes its folder, if a test has started it.
var endChromium = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	endChromium()
	os.Exit(code)
}

// chromium is the browser of all tests of the package, started with the first.
var chromium = sync.OnceValues(func() (context.Context, error) {
	if _, err := debian.Find("fonts-dejavu-core"); err != nil {
		return nil, err
	}
	path, err := debian.Find("chromium-headless-shell")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900))
	if os.Getenv("SCREENSHOTS") == "" { // which the browser takes only with this thread; the rest takes a third less time without it
		options = append(options, chromedp.Flag("disable-threaded-compositing", true))
	}
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	endChromium = end
	ctx, _ = chromedp.NewContext(ctx)
	return ctx, chromedp.Do(ctx)
})

// look is how a tab shows pages.
type look struct {
	width, height int64
	dark          bool
	scripts       bool
}

var wide = look{width: 1280, height: 900, scripts: true}

// tab is a tab of the browser. It fails the test for what pages must not do: console errors, exceptions, violations of the
// Content-Security-Policy, and requests that leave the origin.
type tab struct {
	t   testing.TB
	ctx context.Context
	url string

	look look // shown
	stop func()

	mu     sync.Mutex
	faults []string
}

// tab opens a tab on a site. It is closed at the end of t.
func (s *site) tab(t testing.TB, l look) *tab {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	ctx, cancel := chromedp.NewContext(browser)
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	b := &tab{t: t, ctx: ctx, url: s.http.URL}
	t.Cleanup(b.close)
	b.stop = func() { stop(); cancel() }
	if err := chromedp.Listen(ctx, b.event); err != nil {
		t.Fatal(err)
	}
	send(b, network.Enable, network.EnableParams{})
	send(b, cdplog.Enable, cdp.Empty{})
	send(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !l.scripts})
	b.show(l)
	return b
}

// show changes the window and the colours of what the tab shows.
func (b *tab) show(l look) {
	b.t.Helper()
	if b.look == l {
		return
	}
	b.look = l
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	send(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: l.height, DeviceScaleFactor: 1})
}

// send sends a command of the browser's protocol.
func send[P, R any](b *tab, cmd cdp.Command[P, R], params P) R {
	b.t.Helper()
	out, err := chromedp.Call(b.ctx, cmd, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// close closes the tab and reports its faults.
func (b *tab) close() {
	b.stop()
	b.blame("the tab")
}

// blame reports the faults so far.
func (b *tab) blame(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Errorf("%s: %s", name, f)
	}
	b.faults = nil
}

func (b *tab) event(e any) {
	var fault string
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		fault = fmt.Sprintf("an exception: %+v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			fault = fmt.Sprintf("the console: %s", e.Args[0].Value)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError {
			fault = "the log: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, b.url) && !strings.HasPrefix(u, "data:") && u != "about:blank" {
			fault = "a request leaves the origin: " + u
		}
	}
	if fault != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults = append(b.faults, fault)
	}
}

// do does something in the tab.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// open goes to a path under /ui/ and waits for its content.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url+"/ui/"+path), chromedp.WaitReady(chromedp.CSS("#content > *")))
}

// ready waits for an element, on the next page too.
func (b *tab) ready(selector string) {
	b.t.Helper()
	b.do(chromedp.WaitReady(chromedp.CSS(selector)))
}

// allow forgets faults that hold a text.
func (b *tab) allow(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = slices.DeleteFunc(b.faults, func(f string) bool { return strings.Contains(f, text) })
}

// text returns the text that an element shows.
func (b *tab) text(selector string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS(selector)))
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// value evaluates an expression in the page, and waits for a promise.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// quote returns v as an expression.
func quote(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// wait waits until an expression is true in the page, also while the tab goes from one page to the next.
func (b *tab) wait(expression string) {
	b.t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && b.ctx.Err() == nil; {
		var is bool
		if is, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")")); is {
			return
		}
		b.do(chromedp.Sleep(20 * time.Millisecond))
	}
	b.t.Fatalf("%s: never true: %v", expression, err)
}

// keys presses keys, one after the other, as a person does: a page that takes a key keeps its character from being typed.
func (b *tab) keys(keys ...string) {
	b.t.Helper()
	b.wait(`document.readyState === "complete"`) // a page that is still loading has no shortcuts yet
	for _, r := range strings.Join(keys, "") {
		events := kb.Encode(r)
		if len(events) == 3 { // down, character, up
			events[0].Text, events[0].UnmodifiedText = events[1].Text, events[1].UnmodifiedText
			events = []*input.DispatchKeyEventParams{events[0], events[2]}
		}
		for _, e := range events {
			send(b, input.DispatchKeyEvent, *e)
		}
	}
}

// write types a text.
func (b *tab) write(text string) {
	b.t.Helper()
	b.keys(strings.Split(text, "")...)
}

// inspector is the tab in which axe-core looks at copies of pages: it takes longer to load than to look.
var inspector = sync.OnceValues(func() (*tab, error) {
	browser, err := chromium()
	if err != nil {
		return nil, err
	}
	ctx, _ := chromedp.NewContext(browser)
	if err := chromedp.Do(ctx, chromedp.Navigate("data:text/html,<!doctype html>")); err != nil {
		return nil, err
	}
	_, err = chromedp.Run(ctx, chromedp.Evaluate[bool](axe+"; true"))
	return &tab{ctx: ctx}, err
})

// accessible fails the test for violations that axe finds.
func (b *tab) accessible(name string) {
	b.t.Helper()
	inspect(b.t, name, b.copy(), allRules)
}

const allRules = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`

// pageCopy is a page with its styles, as scripts have left it.
type pageCopy struct {
	Page, Styles string
	look         look
}

// copy returns a copy of the page that the tab shows.
func (b *tab) copy() pageCopy {
	b.t.Helper()
	c := value[pageCopy](b, `(() => {
		for (const d of document.querySelectorAll("dialog")) d.toggleAttribute("data-modal", d.matches(":modal"));
		return {Page: document.documentElement.outerHTML, Styles: [...document.styleSheets].flatMap((s) => [...s.cssRules].map((r) => r.cssText)).join("\n")};
	})()`)
	c.look = b.look
	return c
}

// inspect fails the test if a page breaks a rule of axe-core; rules is a list of them or of their groups. With -short, it looks only at the
// first two of elements beside each other that differ in nothing but texts and most attributes' values, and once for each look at what
// surrounds the contents of pages. preload only serves rules on sound and screen orientation, so it is off.
func inspect(t testing.TB, name string, c pageCopy, rules string) {
	t.Helper()
	b, err := inspector()
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	b.t = t
	b.show(c.look)
	raw := value[string](b, fmt.Sprintf(`(async (page, look, rules, short) => {
		const next = new DOMParser().parseFromString(page.Page, "text/html").documentElement;
		for (const e of next.querySelectorAll("script, link")) e.remove();
		next.querySelector("head").append(Object.assign(document.createElement("style"), {textContent: page.Styles}));
		document.documentElement.replaceWith(next);
		for (const d of next.querySelectorAll("[data-modal]")) { d.open = false; d.showModal(); }
		const shape = (e) => e.outerHTML.replace(/>[^<]+/g, ">").replace(/ (?!class|role|type|data-color)([\w-]+)="[^"]*"/g, " $1");
		const thin = (parent) => {
			const seen = {};
			for (const e of [...parent.children]) {
				const s = shape(e);
				seen[s] = (seen[s] ?? 0) + 1;
				if (seen[s] > 2) e.remove(); else thin(e);
			}
		};
		if (short) {
			window.whole ??= new Set();
			for (const e of next.querySelectorAll("header.bar, nav.side, dialog:not([open])")) {
				const s = look + rules + shape(e);
				if (whole.has(s)) e.replaceChildren(); else whole.add(s);
			}
			thin(next.querySelector("#content"));
		}
		const result = await axe.run(document, {runOnly: rules, resultTypes: ["violations"], preload: false});
		return JSON.stringify(result.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 5).map((n) => n.html.slice(0, 300) + " " + (n.any[0]?.message ?? n.all[0]?.message ?? n.none[0]?.message ?? ""))})));
	})(%s, "%v", %s, %v)`, quote(t, c), c.look, rules, testing.Short()))
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(raw), &violations); err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Errorf("%s at %d: %s: %s:\n\t%s", name, c.look.width, v.ID, v.Help, strings.Join(v.Nodes, "\n\t"))
	}
}

// screenshot returns a picture of what the window shows.
func (b *tab) screenshot() []byte {
	b.t.Helper()
	return send(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
}
