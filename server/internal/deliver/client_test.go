package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/testhttp"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/rollout"
)

// handler serves the hub as a server does.
func (p *plane) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/documents/{name}/live", p.hub.ServeLive)
	mux.HandleFunc("GET /v1/documents/{name}/trial/live", p.hub.ServeTrial)
	mux.HandleFunc("POST /v1/documents/{name}/reports", p.hub.ServeReport)
	return mux
}

func (p *plane) client(o controlplane.ServerOptions) *controlplane.Server {
	p.t.Helper()
	o.URL, o.Document, o.Client = "http://tenet.test", "shop", &http.Client{Transport: testhttp.Transport{Handler: p.handler()}}
	c, err := controlplane.NewServer(o)
	if err != nil {
		p.t.Fatal(err)
	}
	synctest.Wait()
	return c
}

func TestS3TheServerKnowsWhatItsClientsRun(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		c := p.client(controlplane.ServerOptions{ClientID: "web-1", Labels: map[string]string{"region": "eu"}})
		time.Sleep(10 * time.Second)
		if got := p.clients("shop"); len(got) != 1 || got[0].Applied != 1 || got[0].Desired != 1 || got[0].Labels["region"] != "eu" {
			t.Errorf("%+v", got)
		}
		p.publish("shop", 4, nil)
		if got := c.Status().Number; got != 2 {
			t.Errorf("the client has revision %d", got)
		}
		time.Sleep(10 * time.Second)
		if got := p.clients("shop"); got[0].Applied != 2 || got[0].Delivered != 2 {
			t.Errorf("%+v", got)
		}
		_ = c.Close()
		synctest.Wait()
	})
}

func TestS4ClientsFollowARolloutAndItsReversal(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		clients := map[string]*controlplane.Server{}
		for i := range 20 {
			id := fmt.Sprintf("web-%d", i)
			clients[id] = p.client(controlplane.ServerOptions{ClientID: id})
		}
		d := p.publish("shop", 4, half())
		for id, c := range clients {
			want := int64(1)
			if rollout.Assign(id, d.Rollout.Seed) < 0.5 {
				want = 2
			}
			if got := c.Status().Number; got != want {
				t.Errorf("%s has revision %d, want %d", id, got, want)
			}
		}
		if _, err := p.docs.Judged(t.Context(), d, rollout.Judgement{Verdict: rollout.Revert}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for id, c := range clients {
			if got := c.Status(); got.Number != 3 || got.LastError != nil {
				t.Errorf("%s: %+v", id, got)
			}
			_ = c.Close()
		}
		synctest.Wait()
	})
}

// TestS4ACandidateOnDiskIsNotTakenBack restarts a client under another name, which the rollout does not choose.
func TestS4ACandidateOnDiskIsNotTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		d := p.publish("shop", 4, half())
		chosen, other := "a", "b"
		for rollout.Assign(chosen, d.Rollout.Seed) >= 0.5 {
			chosen += "a"
		}
		for rollout.Assign(other, d.Rollout.Seed) < 0.5 {
			other += "b"
		}
		path := filepath.Join(t.TempDir(), "shop.json")
		_ = p.client(controlplane.ServerOptions{ClientID: chosen, CachePath: path}).Close()
		c := p.client(controlplane.ServerOptions{ClientID: other, CachePath: path})
		time.Sleep(time.Minute)
		if got := c.Status(); got.Number != 2 || got.LastError != nil {
			t.Errorf("%+v", got)
		}
		_ = c.Close()
		synctest.Wait()
	})
}

func TestS9ClientsOutliveTheirServer(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		c := p.client(controlplane.ServerOptions{ClientID: "web-1"})
		p.store.down.Store(true)
		time.Sleep(5 * time.Minute)
		if got := c.Status(); got.Number != 1 || got.LastError != nil || got.Staleness > protocol.Heartbeat {
			t.Errorf("with an open stream: %+v", got)
		}
		late := p.client(controlplane.ServerOptions{ClientID: "web-2"})
		if late.Set() != nil || late.Status().LastError == nil {
			t.Errorf("a new client: %+v", late.Status())
		}
		p.store.down.Store(false)
		time.Sleep(time.Minute)
		p.publish("shop", 4, nil)
		time.Sleep(10 * time.Second)
		for _, c := range []*controlplane.Server{c, late} {
			if got := c.Status(); got.Number != 2 || got.LastError != nil {
				t.Errorf("after the outage: %+v", got)
			}
			_ = c.Close()
		}
		synctest.Wait()
		if list := p.clients("shop"); len(list) != 2 {
			t.Errorf("%+v", list)
		}
	})
}

// TestT6ARevisionIsTriedBesideTheOneInForce publishes a revision under trial. The client's executor counts what it would decide otherwise,
// and nothing else changes. A revision that comes into force ends the trial.
func TestT6ARevisionIsTriedBesideTheOneInForce(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		c := p.client(controlplane.ServerOptions{ClientID: "web-1"})
		attempts := 0
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: c, Shadow: c.Trial(), Observer: c.Observer()})
		calls := func() {
			for range 10 {
				_ = e.Do(t.Context(), policy.ParseKey("users.Get"), func(context.Context) error { attempts++; return errors.New("down") })
			}
		}
		reported := func() *rollout.Trial {
			time.Sleep(40 * time.Second)
			list := p.clients("shop")
			if len(list) != 1 || list[0].Applied != c.Status().Number {
				t.Fatalf("%+v", list)
			}
			if list[0].Reported == nil {
				return nil
			}
			return list[0].Reported.Trial
		}
		calls()
		if got := reported(); got != nil || attempts != 30 {
			t.Errorf("without a trial: %+v after %d attempts", got, attempts)
		}

		p.try("shop", 2)
		_ = reported() // the client gets it with a report
		calls()
		want := &rollout.Trial{Revision: 2, Decisions: 30, Divergences: []rollout.Divergence{
			{Key: "users.Get", Reason: "retry", Trial: "attempts_exhausted", Count: 10},
		}}
		if diff := cmp.Diff(want, reported()); diff != "" || attempts != 60 || c.Status().Number != 1 {
			t.Errorf("under trial, after %d attempts under revision %d: %s", attempts, c.Status().Number, diff)
		}

		p.try("shop", 5) // another trial counts anew
		_ = reported()
		calls()
		if got := reported(); got == nil || got.Revision != 3 || got.Decisions != 30 || got.Diverged() != 10 {
			t.Errorf("under another trial: %+v", got)
		}

		p.publish("shop", 4, nil)
		_ = reported()
		calls()
		if got := reported(); got != nil || attempts != 130 {
			t.Errorf("after the trial: %+v, %d attempts", got, attempts)
		}
		_ = c.Close()
		synctest.Wait()
	})
}

// TestT6ATamperedTrialIsNotEvaluated lets a proxy change the revision under trial.
func TestT6ATamperedTrialIsNotEvaluated(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.publish("shop", 3, nil)
		var faults []error
		tampered := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/trial/live") {
				p.handler().ServeHTTP(w, r)
				return
			}
			answer := httptest.NewRecorder()
			p.handler().ServeHTTP(answer, r)
			_, _ = io.WriteString(w, strings.Replace(answer.Body.String(), "max_attempts: 2", "max_attempts: 9", 1))
		})
		c, err := controlplane.NewServer(controlplane.ServerOptions{
			URL: "http://tenet.test", Document: "shop", ClientID: "web-1", Client: &http.Client{Transport: testhttp.Transport{Handler: tampered}},
			OnError: func(err error) { faults = append(faults, err) }, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		p.try("shop", 2)
		time.Sleep(time.Minute)
		if found, err := c.Trial().Policy(t.Context(), policy.ParseKey("users.Get")); !errors.Is(err, policy.ErrPolicyNotFound) {
			t.Errorf("the trial has %+v, %v", found, err)
		}
		number := c.Status().Number
		_ = c.Close() // after which nothing is added to faults
		if len(faults) != 1 || !errors.Is(faults[0], protocol.ErrTampered) || number != 1 {
			t.Errorf("faults %v, revision %d in force", faults, number)
		}
		synctest.Wait()
	})
}
