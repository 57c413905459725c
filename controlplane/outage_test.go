package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// transport answers with one body until it is cut; then it lets every second request hang and refuses the others.
type transport struct {
	body     string
	cut      atomic.Bool
	requests atomic.Int64
	faults   atomic.Int64
}

func (x *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	n := x.requests.Add(1)
	if !x.cut.Load() {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(x.body)), Request: r}, nil
	}
	x.faults.Add(1)
	if n%2 == 0 {
		return nil, errors.New("connection refused")
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

type provider interface {
	policy.Provider
	io.Closer
}

func TestR2OutageOfTheControlPlaneFailsNoCallAndHoldsNone(t *testing.T) {
	const perKey = `{"id":"rev-1","retry":{"max_attempts":5,"backoff":0.001,"backoff_cap":0.001,"jitter":"none"}}`
	for name, start := range map[string]func(*transport) (provider, error){
		"policies": func(x *transport) (provider, error) { x.body = perKey; return controlplane.NewRemote(options(x)) },
		"document": func(x *transport) (provider, error) {
			x.body = `{"version":1,"defaults":{"calls":` + strings.Replace(perKey, `"id":"rev-1",`, "", 1) + `}}`
			return controlplane.NewRemoteDocument(options(x))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &transport{}
				p, err := start(x)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				e := retry.NewExecutor(retry.ExecutorOptions{Provider: p})
				keys := make([]policy.Key, 20)
				for i := range keys {
					keys[i] = policy.Key{Namespace: "svc", Name: fmt.Sprint("op", i)}
					if err := e.Do(t.Context(), keys[i], func(context.Context) error { return nil }); err != nil {
						t.Fatal(err)
					}
				}
				x.cut.Store(true)

				var group sync.WaitGroup
				for worker := range 8 {
					group.Go(func() {
						for n := range 600 { // ten minutes
							call(t, e, keys[(n+worker)%len(keys)])
							time.Sleep(time.Second)
						}
					})
				}
				group.Wait()
				if x.faults.Load() < 10 {
					t.Fatalf("only %d requests met the outage", x.faults.Load())
				}
				_, timeline, err := retry.DoValueWithTimeline(t.Context(), e, keys[0], func(context.Context) (int, error) { return 0, nil })
				if err != nil || timeline.Attributes.Get("policy_source") != "lkg" || timeline.Attributes.Get("policy_error") == "" {
					t.Errorf("the timeline does not tell of the outage: %v, %v", timeline.Attributes, err)
				}

				x.cut.Store(false)
				for range 60 {
					call(t, e, keys[0])
					time.Sleep(time.Second)
				}
				got, err := p.Policy(t.Context(), keys[0])
				if err != nil || got.Meta.Source != policy.SourceRemote {
					t.Errorf("after the outage: %+v, %v", got, err)
				}
			})
		})
	}
}

func options(x *transport) controlplane.RemoteOptions {
	return controlplane.RemoteOptions{
		URL: "https://plane.example", Client: &http.Client{Transport: x}, Logger: slog.New(slog.DiscardHandler), TTL: 5 * time.Second,
	}
}

// call needs the fifth of the five attempts that the policy allows, 1 ms apart; the default would give up after three.
func call(t *testing.T, e *retry.Executor, key policy.Key) {
	start, attempts := time.Now(), 0
	err := e.Do(t.Context(), key, func(context.Context) error {
		if attempts++; attempts < 5 {
			return errors.New("try again")
		}
		return nil
	})
	if took := time.Since(start); err != nil || took != 4*time.Millisecond {
		t.Errorf("%s: %v after %s", key, err, took)
	}
}

func TestR2NothingKnownFallsBackToTheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &transport{}
		x.cut.Store(true)
		p, err := controlplane.NewRemote(options(x))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: p})
		for i := range 50 {
			start := time.Now()
			err := e.Do(t.Context(), policy.Key{Name: fmt.Sprint("op", i)}, func(context.Context) error { return nil })
			if took := time.Since(start); err != nil || took > 2*time.Second || i > 0 && took > 0 {
				t.Errorf("call %d: %v after %s", i, err, took)
			}
			synctest.Wait()
		}
	})
}
