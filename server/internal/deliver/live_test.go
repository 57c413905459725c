package deliver_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/internal/deliver"
	"github.com/tenetdev/tenet/server/internal/documents"
	"github.com/tenetdev/tenet/server/internal/keyring"
)

func half() *rollout.Plan { return &rollout.Plan{Steps: []rollout.Step{{Share: 0.5}, {Share: 1}}} }

func TestS4ConditionalGet(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		if r := p.get("shop"); r.StatusCode != http.StatusNotFound {
			t.Errorf("before the first publication: %s", r.Status)
		}
		p.publish("shop", 3, nil)
		r := p.get("shop")
		etag := r.Header.Get("ETag")
		if got := p.revision(r); got != 1 || etag == "" {
			t.Errorf("revision %d, tag %q", got, etag)
		}
		for _, tag := range []string{etag, "W/" + etag} {
			if r := p.get("shop", "If-None-Match", tag); r.StatusCode != http.StatusNotModified {
				t.Errorf("%s: %s", tag, r.Status)
			}
		}
		p.publish("shop", 4, nil)
		if got := p.revision(p.get("shop", "If-None-Match", etag)); got != 2 {
			t.Errorf("revision %d", got)
		}
		for _, headers := range [][]string{
			{protocol.HeaderClient, "a\tb"}, {protocol.HeaderClient, "a", protocol.HeaderLabels, "a=1&a=2"}, {protocol.HeaderClient, "a", protocol.HeaderApplied, "x"},
		} {
			if r := p.get("shop", headers...); r.StatusCode != http.StatusBadRequest {
				t.Errorf("%q: %s", headers, r.Status)
			}
		}
	})
}

func TestS4LongPollAnswersWithTheChange(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		etag := p.get("shop").Header.Get("ETag")
		poll := func() <-chan *http.Response {
			answers := make(chan *http.Response, 1)
			go func() {
				answers <- p.get("shop", "If-None-Match", etag, "Prefer", "wait=30")
			}()
			synctest.Wait()
			return answers
		}
		began := time.Now()
		answers := poll()
		p.publish("other", 3, nil)
		if r := <-answers; r.StatusCode != http.StatusNotModified || time.Since(began) != 30*time.Second {
			t.Errorf("%s after %v", r.Status, time.Since(began))
		}
		began = time.Now()
		answers = poll()
		p.publish("shop", 4, nil)
		if got := p.revision(<-answers); got != 2 || time.Since(began) > time.Second {
			t.Errorf("revision %d after %v", got, time.Since(began))
		}
		if got := p.revision(<-poll()); got != 2 {
			t.Errorf("a client that is behind got %d", got)
		}
		etag = p.get("shop").Header.Get("ETag")
		answers = poll()
		p.hub.Close()
		if r := <-answers; r.StatusCode != http.StatusNotModified {
			t.Errorf("while draining: %s", r.Status)
		}
	})
}

// TestS4ALongPollThatIsEndedIsRefused: the token of its client was revoked.
func TestS4ALongPollThatIsEndedIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		ctx, end := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, end)
		w := httptest.NewRecorder()
		p.hub.ServeLive(w, request(ctx, "shop", "If-None-Match", p.get("shop").Header.Get("ETag"), "Prefer", "wait=30"))
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	})
}

func TestS4StreamSendsRevisionsAndHeartbeats(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		s := p.stream("shop", nil)
		p.publish("shop", 4, nil)
		p.publish("shop", 5, nil)
		time.Sleep(time.Minute)
		revisions, heartbeats := s.got()
		if !slices.Equal(revisions, []int64{1, 2, 3}) || heartbeats < 4 || heartbeats > 6 {
			t.Errorf("%v, %d heartbeats", revisions, heartbeats)
		}
		s.close()
		again := p.stream("shop", nil, "If-None-Match", p.get("shop").Header.Get("ETag"))
		if revisions, _ := again.got(); len(revisions) > 0 {
			t.Errorf("a client that is up to date got %v", revisions)
		}
		p.hub.Close()
		<-again.done
	})
}

func TestS4ASlowReaderGetsOnlyTheNewestRevision(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		stuck := make(chan struct{})
		s := p.stream("shop", stuck)
		for i := range 100 {
			p.publish("shop", 1+i%8, nil)
		}
		close(stuck)
		synctest.Wait()
		if revisions, _ := s.got(); !slices.Equal(revisions, []int64{1, 101}) {
			t.Errorf("%v", revisions)
		}
		s.close()
	})
}

func TestS4OnlyWhoseRevisionChangedWakes(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		p.publish("other", 3, nil)
		streams := map[string]*stream{}
		for i := range 40 {
			id := fmt.Sprintf("client-%d", i)
			streams[id] = p.stream("shop", nil, protocol.HeaderClient, id)
		}
		others := p.stream("other", nil)
		labelled := p.stream("shop", nil, protocol.HeaderClient, "label", protocol.HeaderLabels, "canary=yes")
		plan := half()
		plan.Steps[0].Labels = map[string]string{"canary": "yes"}
		d := p.publish("shop", 4, plan)
		chosen := 0
		for id, s := range streams {
			want := []int64{1}
			if rollout.Assign(id, d.Rollout.Seed) < 0.5 {
				want = append(want, 2)
				chosen++
			}
			if got, _ := s.got(); !slices.Equal(got, want) {
				t.Errorf("%s got %v, want %v", id, got, want)
			}
		}
		if chosen == 0 || chosen == len(streams) {
			t.Fatalf("the rollout chose %d", chosen)
		}
		if got, _ := labelled.got(); !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("the labelled client got %v", got)
		}
		if got, _ := others.got(); !slices.Equal(got, []int64{1}) {
			t.Errorf("a client of another document got %v", got)
		}
		if _, err := p.docs.Judged(t.Context(), d, rollout.Judgement{Verdict: rollout.Revert}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for id, s := range streams {
			if got, _ := s.got(); got[len(got)-1] != 3 {
				t.Errorf("%s got %v", id, got)
			}
			s.close()
		}
		others.close()
		labelled.close()
	})
}

func TestS4AClientThatHoldsTheCandidateKeepsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		d := p.publish("shop", 4, half())
		id := "a"
		for rollout.Assign(id, d.Rollout.Seed) < 0.5 {
			id += "a"
		}
		if got := p.revision(p.get("shop", protocol.HeaderClient, id)); got != 1 {
			t.Errorf("got %d", got)
		}
		if got := p.revision(p.get("shop", protocol.HeaderClient, id, protocol.HeaderApplied, "2")); got != 2 {
			t.Errorf("went back to %d", got)
		}
		if got := p.revision(p.get("shop", protocol.HeaderApplied, "2")); got != 1 {
			t.Errorf("without a client ID: %d", got)
		}
	})
}

func TestS4AnotherServersPublicationArrives(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		second := deliver.New(p.store, nil)
		go second.Run(t.Context())
		synctest.Wait()
		w := httptest.NewRecorder()
		second.ServeLive(w, request(t.Context(), "shop"))
		if got := p.revision(w.Result()); got != 1 {
			t.Errorf("got %d", got)
		}
		p.publish("shop", 4, nil)
		w = httptest.NewRecorder()
		second.ServeLive(w, request(t.Context(), "shop"))
		if got := p.revision(w.Result()); got != 2 {
			t.Errorf("got %d", got)
		}
	})
}

func TestS4ARotatedKeySignsWithinSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		before := p.get("shop").Header.Get("ETag")
		if _, err := keyring.Rotate(t.Context(), p.store, func(_, _ ed25519.PublicKey) error { return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if r := p.get("shop", "If-None-Match", before); r.StatusCode != http.StatusOK {
			t.Errorf("%s", r.Status)
		}
	})
}

func TestS9AnOutageOfTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		s := p.stream("shop", nil, protocol.HeaderClient, "web")
		p.store.down.Store(true)
		time.Sleep(5 * time.Minute)
		r := p.get("shop")
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s, Retry-After %q", r.Status, r.Header.Get("Retry-After"))
		}
		if _, heartbeats := s.got(); heartbeats < 20 {
			t.Errorf("the stream got %d heartbeats", heartbeats)
		}
		p.store.down.Store(false)
		time.Sleep(6 * time.Second)
		p.publish("shop", 4, nil)
		time.Sleep(6 * time.Second)
		if got, _ := s.got(); !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("after the outage the stream got %v", got)
		}
		if got := p.revision(p.get("shop")); got != 2 {
			t.Errorf("got %d", got)
		}
		s.close()
	})
}

var _ policystore.Store = (*broken)(nil)

func TestS9ADocumentThatCannotBeReadLeavesTheOthersAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		for _, name := range []string{"lost", "shop"} {
			p.publish(name, 3, nil)
			p.get(name)
		}
		p.store.lost.Store(true)
		p.publish("lost", 4, nil)
		time.Sleep(time.Minute)
		p.publish("shop", 4, nil)
		for name, revision := range map[string]int64{"lost": 1, "shop": 2} {
			if response := p.get(name); response.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", name, response.Status)
			} else if got := p.revision(response); got != revision {
				t.Errorf("%s: revision %d, want %d", name, got, revision)
			}
		}
		p.store.down.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if logged := p.log.String(); strings.Count(logged, "cannot be read") != 2 || strings.Count(logged, `document \"lost\"`) != 1 {
			t.Errorf("an unreadable document, then an outage, were logged as\n%s", logged)
		}
		p.store.down.Store(false)
		p.store.lost.Store(false)
		time.Sleep(10 * time.Second)
		if got := p.revision(p.get("lost")); got != 2 {
			t.Errorf("revision %d once it can be read", got)
		}
	})
}

// TestS9WhatARestoredStoreHasIsDelivered: its documents have changed less often than those that the hub knows, or as often but in another
// way.
func TestS9WhatARestoredStoreHasIsDelivered(t *testing.T) {
	for name, c := range map[string]struct {
		frozen    bool // since the last revision
		published int  // revisions in the restored store
	}{
		"fewer revisions":                  {published: 2},
		"other revisions, fewer changes":   {frozen: true, published: 3},
		"other revisions, as many changes": {published: 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, p *plane) {
				for attempts := range 3 {
					p.publish("shop", attempts+1, nil)
				}
				if c.frozen {
					if _, err := p.docs.Freeze(t.Context(), "shop", policystore.Freeze{Actor: "me"}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				if got := p.revision(p.get("shop")); got != 3 {
					t.Errorf("revision %d", got)
				}
				backup := memory.Open()
				defer backup.Close()
				var store policystore.Store = backup.Policies()
				for attempts := range c.published {
					change := documents.Change{Name: "shop", Base: documents.AnyBase}
					if _, err := documents.New(store, nil).Publish(t.Context(), change, body(attempts+5), false); err != nil {
						t.Fatal(err)
					}
				}
				p.store.backup.Store(&store)
				time.Sleep(time.Minute)
				if got := p.envelope(p.get("shop")); got.Revision != int64(c.published) || got.Body != string(body(c.published+4)) {
					t.Errorf("revision %d after the store was restored: %s", got.Revision, got.Body)
				}
			})
		})
	}
}

// TestS9ADocumentThatARestoredStoreDoesNotHoldIsNotDelivered, until it is published anew.
func TestS9ADocumentThatARestoredStoreDoesNotHoldIsNotDelivered(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		s := p.stream("shop", nil, protocol.HeaderClient, "web")
		polled := make(chan int)
		go func() {
			polled <- p.get("shop", "If-None-Match", p.get("shop").Header.Get("ETag"), "Prefer", "wait=50").StatusCode
		}()
		synctest.Wait()
		original := p.store.Store
		backup := memory.Open()
		defer backup.Close()
		var store policystore.Store = backup.Policies()
		p.store.backup.Store(&store)
		time.Sleep(6 * time.Second)
		<-s.done
		if got := <-polled; got != http.StatusNotFound {
			t.Errorf("a long poll got %d", got)
		}
		for range 2 {
			if got := p.get("shop"); got.StatusCode != http.StatusNotFound {
				t.Error(got.Status)
			}
		}
		if n := strings.Count(p.log.String(), "does not hold"); n != 1 {
			t.Errorf("%d warnings: %s", n, &p.log)
		}
		p.store.backup.Store(&original)
		if got := p.revision(p.get("shop")); got != 1 {
			t.Errorf("revision %d", got)
		}
	})
}

// TestS9TheKeysOfARestoredStoreSign, even if they have changed as often as those that the hub knows.
func TestS9TheKeysOfARestoredStoreSign(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		p.get("shop")
		backup := memory.Open()
		defer backup.Close()
		var store policystore.Store = backup.Policies()
		keys, err := keyring.Load(t.Context(), store)
		if err == nil { // the same state at the same time
			_, err = documents.New(store, nil).Publish(t.Context(), documents.Change{Name: "shop", Base: documents.AnyBase}, body(3), false)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.store.backup.Store(&store)
		time.Sleep(6 * time.Second)
		if got := p.envelope(p.get("shop")); !keys.Public().Equal(ed25519.PublicKey(got.Key)) {
			t.Errorf("signed with %s, not %s", protocol.FormatKey(got.Key), protocol.FormatKey(keys.Public()))
		}
	})
}

func TestS9AStoreThatIsTooSlowIsAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		p.get("shop")
		p.store.slow.Store(true)
		p.publish("shop", 4, nil)
		time.Sleep(time.Minute)
		if r := p.get("shop"); r.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s with an old revision", r.Status)
		}
		p.store.slow.Store(false)
		time.Sleep(15 * time.Second)
		if got := p.revision(p.get("shop")); got != 2 {
			t.Errorf("got %d", got)
		}
	})
}
