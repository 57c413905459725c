package deliver_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/testhttp"
	"github.com/tenetdev/tenet/rollout"
)

// handler serves the hub as a server does.
func (p *plane) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/documents/{name}/live", p.hub.ServeLive)
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
