package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/server/api"
)

// recordCalls runs calls of which some fail, and records their decisions.
func (e *env) recordCalls(n int) {
	e.t.Helper()
	set := policy.NewSet(policy.SetConfig{Source: policy.SourceFile, Revision: "recorded", Policies: map[policy.Key]*policy.Policy{
		policy.ParseKey("users.Get"): {Key: policy.ParseKey("users.Get"), Retry: policy.Retry{MaxAttempts: 3, InitialBackoff: time.Microsecond, MaxBackoff: time.Microsecond}},
	}})
	executor := retry.NewExecutor(retry.ExecutorOptions{Provider: set, Observer: e.options.Log, Journal: e.options.Log})
	for i := range n {
		attempt := 0
		_ = executor.Do(e.t.Context(), policy.ParseKey("users.Get"), func(context.Context) error {
			if attempt++; attempt > i%4 {
				return nil
			}
			return errors.New("no")
		})
	}
}

func post[B any](e *env, path string, in any) (out B) {
	e.t.Helper()
	r := e.do(call{method: http.MethodPost, path: path, body: in})
	if r.status != http.StatusOK {
		e.t.Fatalf("%s: %d %s", path, r.status, r.body)
	}
	r.into(e.t, &out)
	return out
}

func TestU2TheAuditLogIsVerifiedInParts(t *testing.T) {
	e := newEnv(t, nil)
	e.recordCalls(20)
	want, err := audit.Verify(t.Context(), e.options.Audit, audit.VerifyOptions{})
	if err != nil || !want.Intact() || want.Lines < 40 {
		t.Fatal(want, err)
	}
	parts := 0
	in := api.AuditVerify{Lines: 9, Heads: []audit.Head{want.Chains[0].Head}}
	for {
		out := post[api.AuditVerified](e, "/v1/audit/verify", in)
		if parts++; out.Ended {
			want.TailVerified, want.Chains[0].VerifiedTo = true, want.Chains[0].Head.Seq
			if diff := cmp.Diff(want, out.Report); diff != "" {
				t.Error(diff)
			}
			break
		}
		if out.Report.Lines != 9*parts {
			t.Errorf("part %d: %d lines", parts, out.Report.Lines)
		}
		in = api.AuditVerify{Lines: 9, Cursor: out.Cursor}
	}
	if parts != (want.Lines+8)/9 && parts != want.Lines/9+1 {
		t.Errorf("%d parts for %d lines", parts, want.Lines)
	}
	if out := post[api.AuditVerified](e, "/v1/audit/verify", api.AuditVerify{Heads: []audit.Head{{ChainID: "gone", Seq: 3, Hash: want.Chains[0].Head.Hash}}}); !out.Ended || len(out.Report.Faults) != 1 || out.Report.Faults[0].Kind != audit.FaultTruncated {
		t.Errorf("a head that the log does not have: %+v", out.Report)
	}
	for name, in := range map[string]any{"cursor": api.AuditVerify{Cursor: []byte("x")}, "head": api.AuditVerify{Heads: []audit.Head{{Hash: "x"}}}, "lines": map[string]int{"lines": -1}} {
		if r := e.do(call{method: http.MethodPost, path: "/v1/audit/verify", body: in}); r.status != 422 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

func TestU2TheAuditLogIsReplayedInParts(t *testing.T) {
	e := newEnv(t, nil)
	e.recordCalls(20)
	e.do(call{method: http.MethodPost, path: "/v1/documents/pay/revisions", body: api.Publish{Body: "version: 1\npolicies: {users.Get: {retry: {max_attempts: 2}}}\n", AcceptWarnings: true}, header: map[string]string{"If-Match": "*"}})
	set, err := e.server.documents.Set(t.Context(), "pay", 1)
	if err != nil {
		t.Fatal(err)
	}
	want, err := audit.Replay(t.Context(), e.options.Audit, audit.ReplayOptions{})
	if err != nil || want.Works != 20 || want.Replayed != 20 {
		t.Fatal(want, err)
	}
	other, err := audit.WhatIf(t.Context(), e.options.Audit, set, audit.ReplayOptions{})
	if err != nil || other.Total.LostSuccesses == 0 {
		t.Fatal(other, err)
	}
	run := func(in api.AuditReplay) (out api.AuditReplayed) {
		for parts := 0; ; parts++ {
			if out = post[api.AuditReplayed](e, "/v1/audit/replay", in); out.Ended {
				if parts < 5 {
					t.Errorf("%d parts", parts)
				}
				return out
			}
			in = api.AuditReplay{Lines: in.Lines, Cursor: out.Cursor}
		}
	}
	if diff := cmp.Diff(want, run(api.AuditReplay{Lines: 7}).Report); diff != "" {
		t.Error(diff)
	}
	out := run(api.AuditReplay{Lines: 7, Document: "pay"})
	var got audit.WhatIfReport
	if err := json.Unmarshal(out.WhatIf, &got); err != nil || out.Revision != 1 {
		t.Fatal(out.Revision, err)
	}
	if diff := cmp.Diff(other, &got); diff != "" {
		t.Error(diff)
	}
	for name, c := range map[string]struct {
		in   api.AuditReplay
		want int
	}{
		"no document": {api.AuditReplay{Document: "none"}, 404}, "no revision": {api.AuditReplay{Document: "pay", Revision: 9}, 404},
		"revision alone": {api.AuditReplay{Revision: 1}, 422}, "cursor": {api.AuditReplay{Cursor: []byte("x")}, 422},
	} {
		if r := e.do(call{method: http.MethodPost, path: "/v1/audit/replay", body: c.in}); r.status != c.want {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	bound := e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"out"}})
	for _, path := range []string{"/v1/audit/verify", "/v1/audit/replay"} {
		if r := e.do(call{method: http.MethodPost, path: path, body: api.AuditVerify{}, secret: bound}); r.status != 403 {
			t.Errorf("%s: a caller bound to a queue gets %d", path, r.status)
		}
	}
}

func TestU2FewRequestsVerifyOrReplayAtATime(t *testing.T) {
	e := newEnv(t, nil)
	for range auditRuns {
		e.server.limits.auditRuns <- struct{}{}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := e.server.beginAuditRun(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has gone: %v", err)
	}
	answered := make(chan int)
	for _, path := range []string{"/v1/audit/verify", "/v1/audit/replay"} {
		go func() { answered <- e.do(call{method: http.MethodPost, path: path, body: api.AuditVerify{}}).status }()
	}
	<-e.server.limits.auditRuns // one ends: the others follow one another
	for range 2 {
		if status := <-answered; status != http.StatusOK {
			t.Error(status)
		}
	}
	if len(e.server.limits.auditRuns) != auditRuns-1 {
		t.Errorf("%d runs are left", len(e.server.limits.auditRuns))
	}
}

// TestU2ARequestThatHasWaitedForOthersIsNotToldOfAnOutage of the store, nor is the log.
func TestU2ARequestThatHasWaitedForOthersIsNotToldOfAnOutage(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		for range auditRuns {
			e.server.limits.auditRuns <- struct{}{}
		}
		r := e.do(call{method: http.MethodPost, path: "/v1/audit/verify", body: api.AuditVerify{}})
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "others verify or replay") {
			t.Errorf("%d %s", r.status, r.body)
		}
		if strings.Contains(e.log.String(), "did not answer") {
			t.Error(e.log)
		}
	})
}
