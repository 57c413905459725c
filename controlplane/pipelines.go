package controlplane

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// lagFor is how long the lag of a source is reported again. Engines ask every 10 s.
const lagFor = 30 * time.Second

// pipelines keeps the running totals of consumers and producers.
type pipelines struct {
	byName *observe.PerKey[*pipeline]

	mu   sync.Mutex // guards list
	list []*pipeline
}

// pipeline is one consumer or producer.
type pipeline struct {
	kind, name string
	totals

	mu           sync.Mutex // guards the fields below
	source, sink string
	began        time.Time // the latest run
	ended        bool
	done, lag    reading // deliveries that had ended at the last report, and those that wait
}

// totals count deliveries.
type totals struct {
	fetched, success, exception, failed, redelivered, retries, active atomic.Int64
}

// reading is a number at a time; the zero time is for none.
type reading struct {
	n  int64
	at time.Time
}

func newPipelines() *pipelines {
	p := &pipelines{}
	p.byName = observe.NewPerKey(protocol.MaxPipelines, func(label string) *pipeline {
		kind, name, _ := strings.Cut(label, "/")
		one := &pipeline{kind: kind, name: name}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.list = append(p.list, one)
		return one
	})
	return p
}

// of returns the pipeline that an event is about.
func (p *pipelines) of(e *observe.Event) *pipeline {
	return p.byName.Get(policy.Key{Name: e.Work.Key.Namespace}) // consumer/NAME or producer/NAME
}

func (o *pipeline) flow(f *observe.Flow) {
	if f.Begun {
		o.mu.Lock()
		o.source, o.sink, o.began, o.ended, o.lag = f.Source, f.Sink, time.Now(), false, reading{}
		o.mu.Unlock()
	}
	if f.Lag != nil {
		o.mu.Lock()
		o.lag = reading{*f.Lag, time.Now()}
		o.mu.Unlock()
	}
	o.active.Add(int64(f.InFlight))
	o.fetched.Add(int64(f.Fetched))
	switch f.Outcome {
	case "success":
		o.success.Add(1)
	case "exception":
		o.exception.Add(1)
	case "failed":
		o.failed.Add(1)
	case "redelivered":
		o.redelivered.Add(1)
	}
}

func (o *pipeline) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

func (o *pipeline) report(now time.Time) protocol.Pipeline {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := protocol.Pipeline{
		Kind: o.kind, Name: shorten(o.name, protocol.MaxName), Source: o.source, Sink: o.sink, Ended: o.ended, Seconds: max(now.Sub(o.began), 0).Seconds(),
		Fetched: o.fetched.Load(), Success: o.success.Load(), Exception: o.exception.Load(), Failed: o.failed.Load(), Redelivered: o.redelivered.Load(),
		Retries: o.retries.Load(), InFlight: max(o.active.Load(), 0),
	}
	done := out.Success + out.Exception + out.Failed
	since := o.done.at
	if since.IsZero() {
		since = o.began
	}
	if took := now.Sub(since).Seconds(); took > 0 {
		out.Rate = float64(done-o.done.n) / took
	}
	o.done = reading{done, now}
	if !o.ended && !o.lag.at.IsZero() && now.Sub(o.lag.at) < lagFor {
		out.Lag, out.LagKnown = o.lag.n, true
	}
	return out
}

// report returns all pipelines by kind and name, with their rates since the last call.
func (p *pipelines) report(now time.Time) []protocol.Pipeline {
	p.mu.Lock()
	known := slices.Clone(p.list)
	p.mu.Unlock()
	list := make([]protocol.Pipeline, 0, len(known))
	for _, one := range known {
		if one.name != "" { // which a server would refuse
			list = append(list, one.report(now))
		}
	}
	slices.SortFunc(list, func(a, b protocol.Pipeline) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return list
}

// samePipelines reports whether two reports say the same, the passing of time aside.
func samePipelines(a, b []protocol.Pipeline) bool {
	return slices.EqualFunc(a, b, func(x, y protocol.Pipeline) bool {
		x.Seconds, y.Seconds = 0, 0
		return x == y
	})
}
