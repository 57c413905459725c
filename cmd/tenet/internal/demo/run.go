package demo

import (
	"context"
	_ "embed" // for the policy
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

//go:embed policy.yaml
var defaultPolicy string

// Policy is the built-in policy document, in YAML.
func Policy() string { return defaultPolicy }

// Options of [Run].
type Options struct {
	Seed        uint64
	Deliveries  []Delivery
	Concurrency int // deliveries at a time, at least 1
	// Set is the policies. Keys are "hooks." and the queue.
	Set *policy.Set
	// Progress is called for every finished delivery, on the goroutine of Run. May be nil.
	Progress func(done, total int)
}

// result is the result of one delivery.
type result struct {
	delivery Delivery
	reason   policy.Reason // success, or why not
	timeline observe.Timeline
	took     time.Duration // until the end of the response
}

// keyOf returns the key of a destination.
func keyOf(queue string) policy.Key { return policy.Key{Namespace: "hooks", Name: queue} }

// Run starts an endpoint, sends it all deliveries and returns a report. If ctx ends first, it returns the context's cause.
func Run(ctx context.Context, o Options) (report Report, err error) {
	endpoint, err := StartEndpoint(Schedule{o.Seed}, o.Deliveries)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, endpoint.Close()) }()
	sender := newSender(o.Set, endpoint.Address())
	began := time.Now()
	results := deliver(ctx, o, sender)
	elapsed := time.Since(began)
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	if err := sender.client.Executor.Wait(ctx); err != nil { // hedges that lost still count at the endpoint
		return Report{}, err
	}
	return newReport(o, results, endpoint.Counts(), elapsed), nil
}

// deliver sends all deliveries concurrently, and returns their results in order.
func deliver(ctx context.Context, o Options, s *sender) []result {
	type finished struct {
		index int
		result
	}
	next, done := make(chan int), make(chan finished)
	var workers sync.WaitGroup
	for range max(o.Concurrency, 1) {
		workers.Go(func() {
			for i := range next {
				done <- finished{i, s.send(ctx, o.Deliveries[i])}
			}
		})
	}
	go func() {
		defer close(done)
		defer workers.Wait()
		defer close(next)
		for i := range o.Deliveries {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	results, count := make([]result, len(o.Deliveries)), 0
	for f := range done {
		results[f.index] = f.result
		count++
		if o.Progress != nil {
			o.Progress(count, len(results))
		}
	}
	return results
}

// sender sends deliveries to one address.
type sender struct{ client tenethttp.Client }

func newSender(set *policy.Set, address string) *sender {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
		// On a reused connection net/http would repeat a broken request itself, outside of any budget.
		DisableKeepAlives: true,
	}
	return &sender{tenethttp.Client{
		HTTP: &http.Client{Transport: transport},
		Executor: retry.NewExecutor(retry.ExecutorOptions{
			Provider: set, Classes: []classify.Family{tenethttp.Classes()},
			Classifiers: map[string]classify.Classifier{tenethttp.ClassifierName: tenethttp.Classifier()},
		}),
	}}
}

// send makes one delivery.
func (s *sender) send(ctx context.Context, d Delivery) result {
	r := result{delivery: d}
	began := time.Now()
	answered, err := s.answer(ctx, d, &r.timeline)
	r.took = time.Since(began)
	switch {
	case !r.timeline.Reason.Succeeded() && r.timeline.Reason != "":
		r.reason = r.timeline.Reason
	case err != nil:
		r.reason = policy.ReasonTransport // the response broke off
	case d.ExpectStatus != 0 && answered != d.ExpectStatus:
		r.reason = policy.ReasonHTTPStatus
	default:
		r.reason = policy.ReasonSuccess
	}
	return r
}

// answer sends the request under its policy and reads the whole response.
func (s *sender) answer(ctx context.Context, d Delivery, timeline *observe.Timeline) (status int, err error) {
	req, err := http.NewRequest(d.Method, d.URL, strings.NewReader(d.Body)) // the client sets the context
	if err != nil {
		return 0, fmt.Errorf("demo: %s: %w", d.ID, err)
	}
	for name, value := range d.Headers {
		req.Header.Set(name, value)
	}
	recorded, capture := observe.RecordTimeline(ctx)
	resp, err := s.client.Do(recorded, req, keyOf(d.Queue),
		retry.WithCallID(d.ID), retry.WithIdempotencyKey(d.ID), retry.WithOperation(d.Method+" "+req.URL.Path))
	*timeline, _ = capture.Timeline()
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
