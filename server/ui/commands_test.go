package ui_test

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
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
		"do/" + pages["redrive"] + "/rate", "do/" + pages["redrive"] + "/pause", "do/" + pages["redrive"] + "/abort", "do/" + pages["redrive"] + "/undo", "do/policies/shop/unfreeze",
		"do/jobs/delete", "do/queues/--x/pause", "do/queues/--x/concurrency", "do/periodic/--x/delete"} {
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

func TestU2CommandsTakeNoNameForAFlag(t *testing.T) {
	s := newSite(t, nil)
	const name = "--server=http://evil.example"
	s.storeFlow(&job.Flow{ID: name, Jobs: []job.FlowJob{node("a", "t")}})
	stored := s.enqueue(job.Request{Type: "t"})[0].ID
	if err := s.log.Record(t.Context(), audit.Event{Type: audit.JobTransition, WorkID: name}); err != nil { // sources of pipelines read IDs from elsewhere
		t.Fatal(err)
	}
	event := regexp.MustCompile(`audit/\d+`).FindString(s.get("audit?work_id=" + name))
	s.secret = s.token(policystore.Token{Name: name, Scopes: []policystore.Scope{policystore.ScopeAdmin}})
	tokens, err := s.db.Policies().Tokens(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"do/queues/NAME/pause", "do/queues/NAME/resume", "do/queues/NAME/concurrency", "do/flows/NAME/cancel", "flows/NAME",
		"do/periodic/NAME/delete", "do/periodic/NAME/reset", "do/tokens/" + tokens[0].ID + "/revoke", "do/jobs/delete?id=NAME&id=" + stored, event,
	} {
		for _, m := range shownCommand.FindAllStringSubmatch(s.get(strings.Replace(path, "NAME", url.PathEscape(name), 1)), -1) {
			if !strings.Contains(m[1], " -- "+name) {
				t.Errorf("%s: %s", path, m[1])
			}
		}
	}
}

func TestU4OnlyADocumentThatExistsIsFrozen(t *testing.T) {
	s := newSite(t, nil)
	has(t, s.refused("do/policies/--server=http%3A%2F%2Fevil.example/freeze", http.StatusNotFound), "What to do")
	has(t, s.refused("nowhere", http.StatusNotFound), "Use the navigation, or search.<")
}

func TestU2TheCommandForAllJobsHasAFilter(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue(job.Request{Type: "t"})
	_, filter, _ := strings.Cut(shownCommand.FindStringSubmatch(s.get("do/jobs/delete"))[1], "--filter ")
	if _, err := job.ParseFilter(html.UnescapeString(filter), time.Now()); err != nil || filter == "" {
		t.Errorf("--filter %s: %v", filter, err)
	}
}

// TestU5TheCommandLineFollowsTheForm fills forms in. What a script shows while a person types is what the server says of the same values.
func TestU5TheCommandLineFollowsTheForm(t *testing.T) {
	s := newSite(t, nil)
	s.seedAll()
	b := s.tab(t, wide)
	shown := func() string { return b.text("#content form .command code") }
	for _, c := range []struct {
		path   string
		values map[string]string
		want   string
	}{
		{"do/dlq/redrive?filter=queue:mail", map[string]string{"rate": "2.5", "canary": "0", "stop": ""}, "tenet dlq requeue --filter queue:mail --rate 2.5/s"},
		{"do/queues/mail/pause", map[string]string{"reason": "it's down", "for": "30m"}, `tenet queues pause --reason 'it'\''s down' --for 30m mail`},
		{"do/queues/mail/concurrency", map[string]string{"concurrency": "5"}, "tenet queues set mail concurrency=5"},
		{"do/limits/new", map[string]string{"name": "vendor", "of": "type", "bounds": "invoice:send", "fields": " meta.a, meta.b ", "concurrency": "1", "per": "1s", "strict": "true"},
			"tenet limits set vendor --type invoice:send --key meta.a,meta.b --concurrency 1 --strict"},
		{"do/limits/set?name=per-tenant&queue=exports", map[string]string{"concurrency": "", "rate": "100", "per": "1m"}, "tenet limits set --queue exports --key meta.tenant --rate 100 --per 1m per-tenant"},
		{"do/periodic/set", map[string]string{"name": "nightly", "cron": "0 3 * * *", "missed": "once", "job": `{"type":"x"}`}, `tenet periodic set nightly --cron '0 3 * * *' --missed once --job '{"type":"x"}'`},
		{"do/tokens/create", map[string]string{"name": "ops", "scopes-read": "true", "scopes-operate": "true", "queues": "mail docs*", "expires": ""}, "tenet token create ops --scopes read,operate --queue 'mail,docs*'"},
		{"do/idempotency/resolve?" + invoice4, map[string]string{"state": "failed", "message": "no such invoice"}, "tenet idempotency resolve --tenant acme --operation charge --as failed --message 'no such invoice' invoice-4"},
		{"do/policies/mail/rollback/2", map[string]string{"message": "calmer", "steps": "1%,100%"}, "tenet policy rollback mail --to 2 --base 3 --message calmer --rollout 1%,100%"},
		{"do/policies/mail/freeze", map[string]string{"reason": "black friday"}, "tenet policy freeze mail --reason 'black friday'"},
		{"do/audit/verify", map[string]string{"heads": `{"heads": []}`}, "tenet audit verify --server URL --head heads.json"},
		{"do/audit/replay", map[string]string{"document": "shop@2"}, "tenet audit replay --server URL --what-if server:URL/shop@2"},
		{"do/new-policy", map[string]string{"name": "pay", "message": "the first"}, "tenet policy publish policies.yaml --base 0 --name pay --message 'the first'"},
		{"do/policies/mail/publish", map[string]string{"p-hold": "10m", "trial": "true"}, "tenet policy publish policies.yaml --name mail --base 3 --trial"},
		{"do/policies/mail/publish", map[string]string{"p-steps": "5%, 100%", "p-latency": "10%"}, "tenet policy publish policies.yaml --name mail --base 3"},
		{"do/policies/mail/publish", map[string]string{"p-steps": " 5 %, 100%", "p-latency": "10%", "steps": "true", "message": "steps"}, "tenet policy publish policies.yaml --name mail --base 3 --message steps --rollout '5 %, 100%' --max-latency 10%"},
		{"do/policies/mail/publish", map[string]string{"p-steps": "", "steps": "true"}, "tenet policy publish policies.yaml --name mail --base 3 --rollout STEPS"},
	} {
		b.open(c.path)
		atFirst := shown()
		value[bool](b, `document.querySelector("#content form[data-command]").dispatchEvent(new Event("input", {bubbles: true})), true`)
		if again := shown(); again != atFirst {
			t.Errorf("%s: the script says %s, the server %s", c.path, again, atFirst)
		}
		for name, text := range c.values {
			value[bool](b, fmt.Sprintf(`((i, v) => { if (/checkbox|radio/.test(i.type)) i.checked = v === "true"; else i.value = v; i.dispatchEvent(new Event("input", {bubbles: true})); return true; })(document.querySelector("#f-%[1]s, #%[1]s, input[value=%[1]s]"), %[2]q)`, name, text))
		}
		if got := shown(); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.path, got, c.want)
		}
		if copied := value[string](b, `document.querySelector("#content form .command [data-copy]").dataset.copy`); copied != c.want {
			t.Errorf("%s: copied is %s", c.path, copied)
		}
	}
}

func TestU5ACommandWithoutTheFilterOfItsPageIsNotShown(t *testing.T) {
	s := newSite(t, nil)
	s.seedFlows()
	s.post("do/queues/mail/pause", url.Values{"key": {"a"}, "reason": {"x"}})
	for path, command := range map[string]string{
		"flows": "tenet flows list", "audit?type=operator_action": "tenet audit query --type operator_action", "operators": "tenet audit query --type operator_action",
	} {
		has(t, s.get(path), command)
	}
	for path, command := range map[string]string{
		"flows?state=running": "tenet flows list", "audit?actor=local": "tenet audit query", "operators?actor=local": "tenet audit query", "operators?action=queues.pause": "tenet audit query",
	} {
		if page := s.get(path); strings.Contains(page, ">"+command) {
			t.Errorf("%s shows %s", path, command)
		}
	}
}
