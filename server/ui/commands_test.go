package ui_test

import (
	"html"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	shownCommand = regexp.MustCompile(`aria-label="The same on the command line">([^<]*)</code>`)
	variable     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|http://127\.0\.0\.1:\d+`) // IDs, and the address of the site
)

// TestCommandsShownByPages compares the command lines of all pages with testdata/commands.txt, which the tests of cmd/tenet
// parse. UPDATE=1 writes the file.
func TestCommandsShownByPages(t *testing.T) {
	found := map[string]bool{}
	collect := func(page string) {
		for _, m := range shownCommand.FindAllStringSubmatch(page, -1) {
			line := variable.ReplaceAllStringFunc(html.UnescapeString(m[1]), func(s string) string {
				if strings.HasPrefix(s, "http") {
					return "http://127.0.0.1:7070"
				}
				return "01890a5d-ac96-774b-bcce-b302099a8057"
			})
			found[line] = true
		}
	}
	found["tenet migrate index meta.tenant"] = true // shown where a search takes longer than a page should
	empty := newSite(t, nil)
	for _, path := range []string{"", "jobs", "queues", "periodic", "flows", "limits", "dlq", "redrives", "policies", "clients", "mechanisms", "pipelines", "idempotency", "workers", "audit", "operators", "tokens"} {
		collect(empty.get(path))
	}
	s := newSite(t, nil)
	s.seedAll()
	pages := s.everyPage()
	for _, path := range pages {
		collect(s.get(path))
	}
	for _, path := range []string{"jobs", "jobs?filter=" + url.QueryEscape("error:mailbox meta.tenant:acme"), "queues/documents", "do/jobs/cancel?filter=state%3Aready", "do/jobs/delete?filter=state%3Adead", "do/queues/mail/resume", "do/policies/shop/rollout/pause", "do/policies/shop/rollout/resume",
		"do/jobs/retry?id=" + strings.TrimPrefix(pages["job"], "jobs/"), "do/periodic/nightly%2Freport/reset", "do/limits/off?name=per-tenant&queue=exports", "do/idempotency/clear?" + invoice4, "do/idempotency/expire",
		"do/" + pages["redrive"] + "/rate", "do/" + pages["redrive"] + "/pause", "do/" + pages["redrive"] + "/abort", "do/" + pages["redrive"] + "/undo", "do/policies/shop/unfreeze"} {
		collect(s.get(path))
	}
	got := strings.Join(slices.Sorted(maps.Keys(found)), "\n") + "\n"
	const file = "testdata/commands.txt"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("pages show other commands than %s (-file +pages); write it with UPDATE=1:\n%s", file, cmp.Diff(string(want), got))
	}
}
