package policy

import (
	"cmp"
	"reflect"
	"time"
)

// Limit bounds the attempts of a key: how many run at a time, and how many start per period. Off unless
// concurrency, rate or adaptive is given. Every attempt counts, retries and hedges too.
type Limit struct {
	// Concurrency is how many attempts may run at a time. Default: no bound, or 200 with adaptive.
	Concurrency int `json:"concurrency" check:"min=1,max=1000000"`
	// MaxWait is how long an attempt may wait in line, in seconds. Hedges and jobs do not wait. Default: none; an attempt
	// over the limit is refused at once.
	MaxWait time.Duration `json:"max_wait" check:"positive,null"`
	// Rate bounds how many attempts start per period.
	Rate Rate `json:"rate" check:"null"`
	// Adaptive moves the concurrency limit with the latency of the attempts.
	Adaptive Adaptive `json:"adaptive" check:"null"`
	// Scope is process, or shared with the other processes that use the same store of limits; an adaptive limit cannot be
	// shared. Default process.
	Scope Scope `json:"scope"`
}

// Rate bounds how many attempts start per period. Off unless a count is given.
type Rate struct {
	// Count is how many attempts may start per period, at an even pace.
	Count int `json:"count" check:"min=1,max=1000000"`
	// Per is the period, in seconds, from a millisecond to an hour. Default 1.
	Per time.Duration `json:"per" check:"min=0.001,max=3600"`
	// Burst is how many attempts may start at once after a pause. Default: count.
	Burst int `json:"burst" check:"min=1,max=1000000"`
}

// Adaptive moves the concurrency limit between min and concurrency: down while attempts take much longer than without load,
// up while they do not. Off unless enabled.
type Adaptive struct {
	// Enabled switches the adaptive limit on.
	Enabled bool `json:"enabled"`
	// Min is the lowest limit. Default 1.
	Min int `json:"min" check:"min=1,max=1000000"`
	// Initial is the first limit. Default 20.
	Initial int `json:"initial" check:"min=1,max=1000000"`
}

const (
	defaultAdaptiveMax     = 200 // as in Netflix' concurrency-limits and failsafe-go
	defaultAdaptiveInitial = 20
	maxLimitCount          = 1_000_000
	minPer, maxPer         = time.Millisecond, time.Hour
)

// Active reports whether the limit bounds anything.
func (l Limit) Active() bool { return l.Concurrency > 0 || l.Rate.Count > 0 || l.Adaptive.Enabled }

// limit fills absent fields and clamps the others.
func (n notes) limit(path string, l *Limit) {
	if *l == (Limit{}) {
		return
	}
	counts := Range[int]{Min: 1, Max: maxLimitCount}
	if l.Adaptive.Enabled {
		counts.Default = defaultAdaptiveMax
		fill(n, path+".concurrency", &l.Concurrency, counts)
		counts.Max = l.Concurrency
		counts.Default = 1
		fill(n, path+".adaptive.min", &l.Adaptive.Min, counts)
		counts.Min = l.Adaptive.Min
		counts.Default = min(max(defaultAdaptiveInitial, counts.Min), counts.Max)
		fill(n, path+".adaptive.initial", &l.Adaptive.Initial, counts)
	}
	counts = Range[int]{Min: 1, Max: maxLimitCount}
	if l.Rate.Count != 0 {
		fill(n, path+".rate.count", &l.Rate.Count, counts)
		fill(n, path+".rate.per", &l.Rate.Per, Range[time.Duration]{Default: time.Second, Min: minPer, Max: maxPer})
		counts.Default = l.Rate.Count
		fill(n, path+".rate.burst", &l.Rate.Burst, counts)
	}
	if l.Concurrency != 0 {
		fill(n, path+".concurrency", &l.Concurrency, counts)
	}
	if l.MaxWait < 0 {
		l.MaxWait = 0
		n.clamped(path + ".max_wait")
	}
	if l.Scope == ScopeShared && l.Adaptive.Enabled {
		l.Scope = ""
		n.clamped(path + ".scope")
	}
	n.unused(path+".rate", reflect.ValueOf(&l.Rate).Elem())
	n.unused(path+".adaptive", reflect.ValueOf(&l.Adaptive).Elem())
}

// limit checks what the ranges of the single fields do not.
func (v *violations) limit(path string, l Limit) {
	if l.Rate.Count == 0 && l.Rate != (Rate{}) {
		v.add(path+".rate.count", "missing", "say how many attempts may start per period")
	}
	a, highest := l.Adaptive, l.Concurrency
	highest = cmp.Or(highest, defaultAdaptiveMax)
	if !a.Enabled && a != (Adaptive{}) {
		v.warn(path+".adaptive", "has no effect, because it is not enabled", "write enabled: true, or remove it")
	}
	if a.Enabled && a.Min > highest {
		v.add(path+".adaptive.min", "is above concurrency, the highest limit", "lower min or raise concurrency")
	}
	if a.Enabled && a.Initial != 0 && (a.Initial < a.Min || a.Initial > highest) {
		v.add(path+".adaptive.initial", "is not between min and concurrency", "write a value between the two")
	}
	if l.Scope == ScopeShared && a.Enabled {
		v.add(path+".scope", "an adaptive limit cannot be shared, because each process measures its own latencies",
			"remove scope, or replace adaptive by the concurrency that all processes share")
	}
	if l.Scope == ScopeShared && !l.Active() {
		v.warn(path+".scope", "has no effect without concurrency or rate", "give one of them, or remove it")
	}
	if l.MaxWait > 0 && !l.Active() {
		v.warn(path+".max_wait", "has no effect without concurrency, rate or adaptive", "give one of them, or remove it")
	}
}
