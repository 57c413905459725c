package ui_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"

	"github.com/tenetdev/tenet/job"
)

func TestU2TheFirstPageOfAnEmptyStoreSaysWhatToDo(t *testing.T) {
	s := newSite(t, nil)
	page := s.get("")
	has(t, page, "No jobs yet", "tenet enqueue http &#39;{&#34;url&#34;: &#34;https://example.com/&#34;}&#39; --server "+s.http.URL, "tenet worker --store sqlite:/jobs.db")
	if strings.Contains(page, `class="chart"`) {
		t.Error("charts of nothing")
	}
}

func TestU2TheOverviewSaysWhatNeedsAttention(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	s.seedPolicies()
	if err := s.db.Jobs().SetQueue(t.Context(), job.QueueState{Queue: "documents", Paused: true, Reason: "printer on fire"}); err != nil {
		t.Fatal(err)
	}
	s.enqueue(job.Request{Type: "email:send", Queue: "slow", RunAt: time.Now().Add(-time.Hour)})
	page := s.get("")
	has(t, page, "Queues that need attention", "printer on fire", "its oldest job has been due for 1 h", "no worker serves it", "Newest causes of death", "Under way", "Rollout of shop")
	cause := regexp.MustCompile(`<th scope="row"><a href="(/ui/dlq\?[^"]*cause[^"]*)">`).FindStringSubmatch(page)
	if cause == nil {
		t.Fatalf("no link to a cause in\n%s", page)
	}
	link, err := url.Parse(strings.ReplaceAll(cause[1], "&amp;", "&"))
	if err != nil {
		t.Fatal(err)
	}
	has(t, s.get(strings.TrimPrefix(link.RequestURI(), "/ui/")), "dead", "smtp")
}

func TestU2ChartsFollowByThemselvesAndReadWithoutScripts(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue(job.Request{Type: "t", Queue: "mail"})
	b := s.tab(t, wide)
	b.open("")
	b.wait(`document.querySelectorAll("#content .plot canvas").length === 5`)
	value[bool](b, `window.canvas = document.querySelector("#chart-backlog canvas"); document.querySelector("#values-backlog").open = true; true`)
	b.wait(`JSON.parse(document.querySelector("#chart-backlog").dataset.chart).x.length > 1`)
	s.enqueue(job.Request{Type: "t", Queue: "mail"}, job.Request{Type: "t", Queue: "mail"})
	b.wait(`document.querySelector("#chart-backlog .series b").textContent === "3"`)
	b.wait(`document.querySelector("#chart-backlog .plot").plot.data[1].at(-1) === 3`)
	if !value[bool](b, `window.canvas.isConnected && document.querySelector("#values-backlog").open`) {
		t.Error("the update has drawn the chart anew or closed its table")
	}
	has(t, s.get(""), "Throughput", "From due to finished", "Attempts per finished job", "Backlog", "Oldest ready job", "<summary>Values</summary>")
	has(t, s.get("queues/mail?span=15m"), `aria-current="true">15 minutes`, "Backlog")
}

func TestU5TheAxisOfAChartIsInUTCAndSaysSo(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue(job.Request{Type: "t", Queue: "mail"})
	b := s.tab(t, wide)
	send(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"})
	send(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		const fill = CanvasRenderingContext2D.prototype.fillText;
		window.drawn = [];
		CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { drawn.push(text); return fill.call(this, text, ...at); };`})
	b.open("")
	now := time.Now().UTC()
	b.wait(`drawn.includes("UTC") && drawn.some((text) => /^(` + now.Add(-time.Minute).Format("15") + `|` + now.Format("15") + `):\d\d/.test(text))`)
}
