package deliver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
)

func (p *plane) report(name string, r protocol.Report) int {
	p.t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		p.t.Fatal(err)
	}
	q := httptest.NewRequestWithContext(context.Background(), http.MethodPost, protocol.ReportsPath(name), bytes.NewReader(data))
	q.SetPathValue("name", name)
	w := httptest.NewRecorder()
	p.hub.ServeReport(w, q)
	return w.Code
}

func counters(revision int64, calls int, failed bool) []protocol.RevisionCounters {
	var c rollout.Counters
	for range calls {
		c.Observe(time.Millisecond, 0, failed)
	}
	return []protocol.RevisionCounters{{Revision: revision, Counters: c}}
}

func (p *plane) clients(name string) []policystore.Client {
	p.t.Helper()
	list, err := p.store.Clients(context.Background(), name, policystore.ClientKey{}, 100)
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

func TestS3WhatClientsDoIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		p.get("shop", protocol.HeaderClient, "web-1", protocol.HeaderLabels, "region=eu")
		p.get("shop") // without a name: not recorded
		time.Sleep(2 * time.Second)
		want := []policystore.Client{{Document: "shop", ID: "web-1", Labels: map[string]string{"region": "eu"}, Desired: 1, Delivered: 1}}
		ignore := cmpopts.IgnoreFields(policystore.Client{}, "LastSeen")
		if diff := cmp.Diff(want, p.clients("shop"), ignore); diff != "" {
			t.Error(diff)
		}
		p.publish("shop", 4, nil)
		p.get("shop", protocol.HeaderClient, "web-1", protocol.HeaderApplied, "1")
		if status := p.report("shop", protocol.Report{Client: "web-1", Session: "s", Sequence: 1, Applied: 1, Refused: 2, Reason: "unknown class", Staleness: 1.5}); status != http.StatusNoContent {
			t.Errorf("status %d", status)
		}
		time.Sleep(2 * time.Second)
		want = []policystore.Client{{
			Document: "shop", ID: "web-1", Desired: 2, Delivered: 2, Applied: 1, Refused: 2, Reason: "unknown class", Staleness: 1500 * time.Millisecond,
		}}
		if diff := cmp.Diff(want, p.clients("shop"), ignore); diff != "" {
			t.Error(diff)
		}
	})
}

func TestS3AConnectedClientIsSeenAllTheTime(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		s := p.stream("shop", nil, protocol.HeaderClient, "web-1")
		time.Sleep(time.Hour)
		if seen := p.clients("shop")[0].LastSeen; time.Since(seen) > time.Minute {
			t.Errorf("last seen %v ago", time.Since(seen))
		}
		s.close()
	})
}

func TestS2ReportsBecomeEvidenceOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		p.report("shop", protocol.Report{Client: "early", Session: "s", Sequence: 1, Applied: 1, Counters: counters(1, 99, true)}) // before the rollout
		d := p.publish("shop", 4, half())
		for _, r := range []protocol.Report{
			{Client: "a", Session: "s", Sequence: 1, Applied: 1, Counters: counters(1, 30, false)},
			{Client: "a", Session: "s", Sequence: 1, Applied: 1, Counters: counters(1, 30, false)}, // sent again
			{Client: "a", Session: "s", Sequence: 2, Applied: 1, Counters: counters(1, 10, true)},
			{Client: "a", Session: "restarted", Sequence: 1, Applied: 1, Counters: counters(1, 5, true)},
			{Client: "b", Session: "s", Sequence: 7, Applied: 2, Counters: counters(2, 20, true)},
			{Client: "b", Session: "s", Sequence: 6, Applied: 2, Counters: counters(2, 20, true)}, // overtaken
			{Client: "c", Session: "s", Sequence: 1, Applied: 9, Counters: counters(9, 20, true)}, // another revision
		} {
			p.report("shop", r)
			time.Sleep(700 * time.Millisecond) // some are flushed together, some apart
		}
		time.Sleep(2 * time.Second)
		evidence, err := p.store.Evidence(t.Context(), d.Rollout.ID)
		if err != nil || len(evidence) != 2 {
			t.Fatalf("%+v, %v", evidence, err)
		}
		var a, b, base, candidate rollout.Counters
		a.Add(counters(1, 30, false)[0].Counters)
		a.Add(counters(1, 15, true)[0].Counters)
		base.AddClient(a)
		b.Add(counters(1, 20, true)[0].Counters)
		candidate.AddClient(b)
		want := []policystore.Evidence{
			{Rollout: d.Rollout.ID, Step: 0, Revision: 1, Counters: base}, {Rollout: d.Rollout.ID, Step: 0, Revision: 2, Counters: candidate},
		}
		if diff := cmp.Diff(want, evidence, cmp.AllowUnexported(rollout.Sketch{}), cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestS2EvidenceWhoseStorageWasNotConfirmedCountsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		d := p.publish("shop", 4, half())
		p.get("shop")
		for i, mute := range []bool{true, true, false, true, false} {
			p.store.mute.Store(mute)
			p.report("shop", protocol.Report{Client: "a", Session: "s", Sequence: int64(i + 1), Applied: 1, Counters: counters(1, 10, false)})
			time.Sleep(5 * time.Second)
		}
		evidence, err := p.store.Evidence(t.Context(), d.Rollout.ID)
		if err != nil || len(evidence) != 1 || evidence[0].Counters.Calls != 50 || evidence[0].Counters.Spread.Clients != 1 {
			t.Errorf("%+v, %v", evidence, err)
		}
	})
}

func TestS2EvidenceIsWrittenOnceASecondWhileReportsArrive(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		d := p.publish("shop", 4, half())
		p.get("shop")
		p.store.busy.Store(true)
		for i := range 1000 {
			p.report("shop", protocol.Report{Client: fmt.Sprint("c", i), Session: "s", Sequence: 1, Applied: 1, Counters: counters(1, 1, false)})
			time.Sleep(10 * time.Millisecond)
		}
		if adds := p.store.adds.Load(); adds < 9 || adds > 11 {
			t.Errorf("%d writes in 10 s", adds)
		}
		p.store.mute.Store(true)
		p.report("shop", protocol.Report{Client: "late", Session: "s", Sequence: 1, Applied: 1, Counters: counters(1, 1, false)})
		time.Sleep(1500 * time.Millisecond)
		p.report("shop", protocol.Report{Client: "later", Session: "s", Sequence: 1, Applied: 1, Counters: counters(1, 1, false)})
		p.store.mute.Store(false)
		time.Sleep(time.Second) // one flush repeats the batch and writes the next
		evidence, err := p.store.Evidence(t.Context(), d.Rollout.ID)
		if err != nil || len(evidence) != 1 || evidence[0].Counters.Calls != 1002 {
			t.Errorf("%+v, %v", evidence, err)
		}
	})
}

func TestS9ReportsOutliveAnOutageOfTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		d := p.publish("shop", 4, half())
		p.get("shop")
		p.store.down.Store(true)
		time.Sleep(time.Minute)
		for i := range 20 {
			status := p.report("shop", protocol.Report{Client: "a", Session: "s", Sequence: int64(i + 1), Applied: 1, Counters: counters(1, 10, false)})
			if status != http.StatusNoContent {
				t.Fatalf("status %d", status)
			}
			time.Sleep(time.Second)
		}
		p.store.down.Store(false)
		time.Sleep(10 * time.Second)
		evidence, err := p.store.Evidence(t.Context(), d.Rollout.ID)
		if err != nil || len(evidence) != 1 || evidence[0].Counters.Calls != 200 || evidence[0].Counters.Spread.Clients != 1 {
			t.Errorf("%+v, %v", evidence, err)
		}
		if list := p.clients("shop"); len(list) != 1 || list[0].Applied != 1 {
			t.Errorf("%+v", list)
		}
	})
}

func TestS9BadReportsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		for _, test := range []struct {
			name, document string
			body           io.Reader
			status         int
		}{
			{"no such document", "other", strings.NewReader(`{"client":"a","session":"s","applied":1,"staleness":0,"sequence":1}`), http.StatusNotFound},
			{"invalid JSON", "shop", strings.NewReader(`{`), http.StatusUnprocessableEntity},
			{"no client", "shop", strings.NewReader(`{"session":"s","applied":1,"staleness":0,"sequence":1}`), http.StatusUnprocessableEntity},
			{"too large", "shop", strings.NewReader(strings.Repeat(" ", protocol.MaxReport+1)), http.StatusRequestEntityTooLarge},
			{"cut off or too slow", "shop", iotest.ErrReader(io.ErrUnexpectedEOF), http.StatusRequestTimeout},
		} {
			q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", test.body)
			q.SetPathValue("name", test.document)
			w := httptest.NewRecorder()
			p.hub.ServeReport(w, q)
			if w.Code != test.status || !strings.Contains(w.Header().Get("Content-Type"), "problem+json") {
				t.Errorf("%s: %d %s", test.name, w.Code, w.Body)
			}
		}
	})
}

func TestS3TheNewestMechanismsOfAClientAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		open := protocol.Mechanism{Kind: protocol.Breaker, Name: "users.Get", State: "open", Seconds: 2.5, Openings: 1, Refusals: 7}
		r := protocol.Report{Client: "web-1", Session: "a", Applied: 1, Sequence: 1, Mechanisms: []protocol.Mechanism{open}}
		began := time.Now().Add(-2500 * time.Millisecond)
		p.report("shop", r)
		time.Sleep(2 * time.Second)
		want := []policystore.Mechanism{{Kind: "breaker", Name: "users.Get", State: "open", Since: policystore.Stamp(began), Openings: 1, Refusals: 7}}
		if diff := cmp.Diff(want, p.clients("shop")[0].Reported.Mechanisms); diff != "" {
			t.Error(diff)
		}
		p.get("shop", protocol.HeaderClient, "web-1", protocol.HeaderLabels, "region=eu") // a contact says nothing of mechanisms
		time.Sleep(2 * time.Second)
		if r := p.clients("shop")[0].Reported; len(r.Mechanisms) != 1 {
			t.Errorf("%+v after a contact", r)
		}
		other := p.clients("shop")[0] // as another server has heard from the client
		other.LastSeen, other.Reported = time.Now(), &policystore.Reported{Pipelines: []policystore.Pipeline{{Kind: "consumer", Name: "orders"}}}
		if err := p.store.SaveClients(t.Context(), []policystore.Client{other}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		p.get("shop", protocol.HeaderClient, "web-1", protocol.HeaderLabels, "region=us")
		time.Sleep(2 * time.Second)
		if r := p.clients("shop")[0].Reported; len(r.Mechanisms) != 0 || len(r.Pipelines) != 1 {
			t.Errorf("%+v is older than what another server has stored", r)
		}
		r.Sequence, r.Mechanisms = 2, nil
		p.report("shop", r)
		time.Sleep(2 * time.Second)
		if r := p.clients("shop")[0].Reported; r != nil {
			t.Errorf("%+v after a report without any", r)
		}
	})
}

// TestS3AReasonCanBeStored: a NUL, which PostgreSQL does not store, must not keep other clients' reports from being stored.
func TestS3AReasonCanBeStored(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		p.report("shop", protocol.Report{Client: "web-1", Session: "s", Sequence: 1, Refused: 1, Reason: "a \x00 byte"})
		time.Sleep(2 * time.Second)
		if list := p.clients("shop"); len(list) != 1 || list[0].Reason != "a \ufffd byte" {
			t.Errorf("%+v", list)
		}
	})
}
