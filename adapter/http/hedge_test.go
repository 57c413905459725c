package tenethttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// hedged is a policy whose hedge starts after 100 ms.
func hedged(p *policy.Policy) {
	p.Hedge = policy.Hedge{Enabled: true, HedgeDelay: 100 * time.Millisecond}
}

// steps answers the n-th request with the n-th step; later requests get the last step.
func steps(list ...roundTrip) roundTrip {
	var mu sync.Mutex
	return func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		next := list[0]
		if len(list) > 1 {
			list = list[1:]
		}
		mu.Unlock()
		return next(r)
	}
}

// after answers late and ignores the end of the context.
func after(d time.Duration, resp *http.Response, err error) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		time.Sleep(d)
		return resp, err
	}
}

func spied(status int, text string) (*http.Response, *spy) {
	b := &spy{Reader: strings.NewReader(text)}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: b}, b
}

func TestR9LosersBodiesAreClosed(t *testing.T) {
	tests := map[string]struct {
		first  int // status of the primary, which ends after delay
		delay  time.Duration
		second time.Duration // of the hedge, which succeeds
	}{
		"the primary succeeds too late":      {200, time.Second, 50 * time.Millisecond},
		"the primary fails too late":         {503, time.Second, 50 * time.Millisecond},
		"the primary fails before the hedge": {503, 150 * time.Millisecond, 500 * time.Millisecond},
		"the primary is refused before":      {404, 150 * time.Millisecond, 500 * time.Millisecond},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow, lost := spied(tt.first, "slow")
				fast, won := spied(200, "fast")
				e := retry.NewExecutor(options(t, fixed(hedged)))
				tr := &tenethttp.Transport{Executor: e, Base: steps(after(tt.delay, slow, nil), after(tt.second, fast, nil))}
				resp, err := tr.RoundTrip(request(t, "GET", "http://x/", nil))
				if err != nil {
					t.Fatal(err)
				}
				if err := e.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !lost.isClosed() || won.isClosed() {
					t.Errorf("closed: loser %t, winner %t", lost.isClosed(), won.isClosed())
				}
				if got := read(t, resp); got != "fast" || !won.isClosed() {
					t.Errorf("body %q", got)
				}
			})
		})
	}
}

func TestR9WinnerStreamsOverARealTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		n := 0
		client, stop := bubble(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			n++
			first := n == 1
			mu.Unlock()
			if first {
				<-r.Context().Done()
				return
			}
			for range 4 {
				w.Write(make([]byte, 1<<20))
				time.Sleep(time.Second)
			}
		})
		defer stop()
		e := retry.NewExecutor(options(t, fixed(hedged)))
		c := tenethttp.Client{HTTP: client, Executor: e}
		resp := do(t.Context(), t, &c, request(t, "GET", "http://x/", nil))
		if got := read(t, resp); len(got) != 4<<20 {
			t.Errorf("%d bytes, want 4 MiB", len(got))
		}
		if err := e.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestUnrepeatableRequestsAreNotHedged checks that a request that must not be repeated is sent once, and that its response is
// neither delayed nor changed.
func TestUnrepeatableRequestsAreNotHedged(t *testing.T) {
	lost := errors.New("lost")
	requests := map[string]func() *http.Request{
		"POST": func() *http.Request { return request(t, "POST", "http://x/", strings.NewReader("order")) },
		"PUT without GetBody": func() *http.Request {
			return request(t, "PUT", "http://x/", io.MultiReader(strings.NewReader("order")))
		},
	}
	for name, make := range requests {
		for outcome, result := range map[string]func() (*http.Response, error){
			"succeeds":    func() (*http.Response, error) { return answer(200, "answer"), nil },
			"is refused":  func() (*http.Response, error) { return answer(404, "answer"), nil },
			"is failed":   func() (*http.Response, error) { return answer(503, "answer"), nil },
			"gets lost":   func() (*http.Response, error) { return nil, lost },
			"is hanging?": func() (*http.Response, error) { time.Sleep(time.Hour); return nil, lost },
		} {
			t.Run(name+" "+outcome, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sent := 0
					e := retry.NewExecutor(options(t, fixed(hedged)))
					tr := &tenethttp.Transport{Executor: e, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
						sent++
						io.Copy(io.Discard, r.Body)
						time.Sleep(time.Second)
						return result()
					})}
					resp, err := tr.RoundTrip(make())
					if sent != 1 {
						t.Errorf("sent %d times", sent)
					}
					if err != nil {
						if !errors.Is(err, lost) {
							t.Errorf("error %v", err)
						}
					} else if got := read(t, resp); got != "answer" {
						t.Errorf("body %q", got)
					}
					if err := e.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
				})
			})
		}
	}
}

// countingBudget counts the attempts that it is countingBudget to allow.
type countingBudget struct{ times int }

func (b *countingBudget) AllowAttempt(context.Context, policy.Key, int, budget.AttemptKind, policy.BudgetRef) budget.Decision {
	b.times++
	return budget.Allow()
}

// TestR9UnhedgeableRequestsCostOneAttempt checks that no hedge is launched, counted or charged.
func TestR9UnhedgeableRequestsCostOneAttempt(t *testing.T) {
	for name, make := range map[string]func() *http.Request{
		"POST": func() *http.Request { return request(t, "POST", "http://x/", strings.NewReader("order")) },
		"PUT without GetBody": func() *http.Request {
			return request(t, "PUT", "http://x/", io.MultiReader(strings.NewReader("order")))
		},
		"keyed POST without GetBody": func() *http.Request {
			r := request(t, "POST", "http://x/", io.MultiReader(strings.NewReader("order")))
			r.Header.Set("Idempotency-Key", "k")
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &countingBudget{}
				o := options(t, fixed(func(p *policy.Policy) {
					hedged(p)
					p.Hedge.MaxHedges, p.Retry.Budget.Name = 3, "b"
				}))
				o.Budgets = budget.NewRegistry()
				if err := o.Budgets.Register("b", b); err != nil {
					t.Fatal(err)
				}
				c := tenethttp.Client{Executor: retry.NewExecutor(o), HTTP: &http.Client{Transport: after(time.Minute, answer(200, "answer"), nil)}}
				ctx, capture := observe.RecordTimeline(t.Context())
				resp := do(ctx, t, &c, make())
				resp.Body.Close()
				if timeline, _ := capture.Timeline(); len(timeline.Attempts) != 1 {
					t.Errorf("%d attempts", len(timeline.Attempts))
				}
				if b.times != 1 {
					t.Errorf("the budget was countingBudget %d times", b.times)
				}
			})
		})
	}
}

func TestKeyedPostsAreHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, _ := spied(200, "slow")
		fast, _ := spied(200, "fast")
		e := retry.NewExecutor(options(t, fixed(hedged)))
		tr := &tenethttp.Transport{Executor: e, Base: steps(after(time.Second, slow, nil), after(0, fast, nil))}
		req := request(t, "POST", "http://x/", strings.NewReader("order"))
		req.Header.Set("Idempotency-Key", "k")
		resp, err := tr.RoundTrip(req)
		if err != nil || read(t, resp) != "fast" {
			t.Error(resp, err)
		}
		if err := e.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
