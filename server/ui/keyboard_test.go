package ui_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
)

// walk follows the steps of a person without a pointer: "→X" presses Tab until X has the focus, "?X" waits until X is shown, and
// anything else is typed.
func (b *tab) walk(steps ...string) {
	b.t.Helper()
	for _, step := range steps {
		if what, ok := strings.CutPrefix(step, "→"); ok {
			b.tabTo(what)
		} else if text, ok := strings.CutPrefix(step, "?"); ok {
			b.shows(text)
		} else {
			b.write(step)
		}
	}
}

func TestU3ActionsAreMadeByKeyboardAlone(t *testing.T) {
	s := newSite(t, nil)
	s.seedAll()
	b := s.tab(t, wide)
	flows := []struct {
		name, path string
		steps      []string
	}{
		{"a rollout is aborted", "policies/shop/rollout", []string{"→Abort", kb.Enter, "?Abort the rollout of shop?", "→Abort the rollout", kb.Enter, "?The rollout of shop is aborted."}},
		{"a trial is ended", "policies/mail/trial", []string{"→End the trial", kb.Enter, "?End the trial of mail?", "→End the trial", kb.Enter, "?The trial of mail has ended."}},
		{"a document is frozen", "policies/mail", []string{"→Freeze", kb.Enter, "?Freeze mail?", "a release", kb.Enter, "?mail is frozen."}},
		{"a limit is set", "limits", []string{"→Set a limit…", kb.Enter, "?It bounds the jobs of a", "per-user", "→#f-bounds", "mail", "→#f-concurrency", "3", kb.Enter, "?is set:"}},
		{"a periodic job is run", "periodic", []string{"→Run now", kb.Enter, "?Run nightly/report now?", "→Enqueue 1 job", kb.Enter, "?nightly/report was enqueued."}},
		{"a periodic job is set", "periodic", []string{"→Set a periodic job", kb.Enter, "?Workers follow within a second", "weekly", "→#f-cron", "@weekly", "→#f-job", `{"type": "report:build"}`, "→Set the periodic job", kb.Enter, "?weekly is set."}},
		{"a record is resolved", "idempotency/record?" + invoice4, []string{"→Resolve", kb.Enter, "?Resolve invoice-4", "f", "→Resolve 1 record", kb.Enter, "?invoice-4 was resolved as failed."}},
		{"chosen jobs are retried", "jobs?filter=state%3Adead", []string{"→#content tbody input[name=id]", " ", "→#content tbody input[name=id]", " ", "→Retry…", kb.Enter, "?Retry 2 jobs?", "→Retry 2 jobs", kb.Enter, "?Retried 2 jobs."}},
		{"all jobs that match are deleted", "jobs?filter=state%3Adead+queue%3Adocuments", []string{"→Delete…", kb.Enter, "?This applies to all jobs that match", "→#dialog .danger", kb.Enter, "?No job matches"}},
	}
	for _, f := range flows {
		t.Run(f.name, func(t *testing.T) {
			b.t = t
			b.open(f.path)
			b.walk(f.steps...)
			b.blame(f.name)
		})
	}
	t.Run("a token is revoked", func(t *testing.T) {
		b.t = t
		b.open("components") // a page without updates, which the first token would refuse
		root := s.token(policystore.Token{Name: "root", Scopes: []policystore.Scope{policystore.ScopeAdmin}})
		s.token(policystore.Token{Name: "ops", Scopes: []policystore.Scope{policystore.ScopeRead}})
		list, err := s.db.Policies().Tokens(t.Context(), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		var id string
		for _, token := range list {
			if token.Name == "ops" {
				id = token.ID
			}
		}
		b.open("login?return=%2Fui%2Ftokens")
		b.walk("→#token", root, kb.Enter, "?Create a token", "→#content a[href*='"+id+"/revoke']", kb.Enter, "?Revoke the token ops?", "→Revoke 1 token", kb.Enter, "?The token was revoked.")
	})
	b.t = t
}

func TestU3ALinkThatActsIsPressedWithSpace(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue(job.Request{Type: "t", Queue: "mail"})
	b := s.tab(t, wide)
	b.open("queues")
	b.walk("→Pause", " ", "?Pause mail?")
}
