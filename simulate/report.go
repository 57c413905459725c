package simulate

import (
	"maps"
	"math/bits"
	"slices"
	"time"
)

// Report is the result of a simulation. Durations in JSON are seconds.
type Report struct {
	Title    string          `json:"title,omitempty"`
	Seed     uint64          `json:"seed"`
	Duration float64         `json:"duration"`
	Warmup   float64         `json:"warmup"`
	Interval float64         `json:"interval"`
	Clients  []ClientResult  `json:"clients"`
	Services []ServiceResult `json:"services"`
	Faults   []FaultSpan     `json:"faults,omitempty"`
}

// FaultSpan is what a fault did, in words, and when.
type FaultSpan struct {
	Name   string  `json:"name"`
	Of     string  `json:"of"`
	From   float64 `json:"from"`
	To     float64 `json:"to"` // when it had ended or, for a ramp, had grown
	Shape  Shape   `json:"shape"`
	Effect string  `json:"effect"`
}

// ClientResult is the result of a group of clients, or of the calls of one service by another. Where clients enqueue jobs, a call is
// a job, which succeeds when it is completed and fails when it is dead; its latency counts from the enqueueing.
type ClientResult struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	JobType string `json:"job_type,omitempty"`
	ClientTotals
	Series []ClientSample `json:"series"`
}

// ClientCounts count calls when they begin and end, attempts when they begin. A sample counts what happens in it.
type ClientCounts struct {
	Calls     int64 `json:"calls"`
	Attempts  int64 `json:"attempts"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
}

// ClientTotals count the calls, and the attempts, that began after the warm-up.
type ClientTotals struct {
	ClientCounts
	AttemptsPerCall float64          `json:"attempts_per_call"`
	Success         float64          `json:"success"` // share of the calls that ended
	Latency         Percentiles      `json:"latency"` // of calls that succeeded, with their retries
	Reasons         map[string]int64 `json:"reasons"` // of calls that failed
	LostLeases      int64            `json:"lost_leases,omitempty"`
	PeakBacklog     int              `json:"peak_backlog,omitempty"`
}

// ClientSample is one interval; Backlog is the number of unfinished jobs at its beginning.
type ClientSample struct {
	ClientCounts
	Latency Percentiles `json:"latency"`
	Backlog int         `json:"backlog,omitempty"`
}

// Percentiles of a latency in seconds, exact within 3 %; 0 where there is none.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// ServiceResult is the result of a service.
type ServiceResult struct {
	Name string `json:"name"`
	ServiceTotals
	Series []ServiceSample `json:"series"`
}

// ServiceCounts count requests when they arrive and when they end. A sample counts what happens in it.
type ServiceCounts struct {
	Requests int64 `json:"requests"`
	Served   int64 `json:"served"`
	Failed   int64 `json:"failed"`  // of those served
	Wasted   int64 `json:"wasted"`  // served without an error after the client had given up
	Refused  int64 `json:"refused"` // on arrival
	Dropped  int64 `json:"dropped"` // from the queue
}

// ServiceTotals count the requests that arrived after the warm-up.
type ServiceTotals struct {
	ServiceCounts
	PeakQueue int `json:"peak_queue"`
}

// ServiceSample is one interval; Queue and Busy are the state at its beginning.
type ServiceSample struct {
	ServiceCounts
	Queue int `json:"queue"`
	Busy  int `json:"busy"`
}

func (m *simulation) report() *Report {
	s := m.scenario
	r := &Report{
		Title: s.Title, Seed: m.seed, Duration: s.Duration.Seconds(), Warmup: s.Warmup.Seconds(), Interval: s.Interval.Seconds(),
	}
	for _, name := range slices.Sorted(maps.Keys(s.Faults)) {
		r.Faults = append(r.Faults, describe(name, s.Faults[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[name]
		t := &g.total
		t.AttemptsPerCall, t.Success = ratio(t.Attempts, t.Calls), ratio(t.Succeeded, t.Succeeded+t.Failed)
		t.Latency = g.all.percentiles()
		for i := range g.windows {
			g.windows[i].Latency = g.latency[i].percentiles()
		}
		r.Clients = append(r.Clients, ClientResult{Name: name, Service: g.spec.Service, JobType: g.spec.Job.Type, ClientTotals: *t, Series: g.windows})
	}
	for _, name := range slices.Sorted(maps.Keys(m.services)) {
		v := m.services[name]
		r.Services = append(r.Services, ServiceResult{Name: name, ServiceTotals: v.total, Series: v.windows})
	}
	return r
}

func ratio(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// histogram counts latencies in buckets, 16 to each power of two of nanoseconds.
type histogram struct {
	counts []uint32 // from the bucket low
	low    int
	total  int64
}

const parts = 16

func bucketOf(d time.Duration) int {
	ns := uint64(max(d, parts))
	power := bits.Len64(ns) - 1
	return power*parts + int(ns>>(power-4)&(parts-1))
}

// add adds a latency.
func (h *histogram) add(d time.Duration) {
	b := bucketOf(d)
	switch {
	case h.counts == nil:
		h.low, h.counts = b, make([]uint32, 1, parts)
	case b < h.low:
		h.counts = append(make([]uint32, h.low-b), h.counts...)
		h.low = b
	case b >= h.low+len(h.counts):
		h.counts = append(h.counts, make([]uint32, b-h.low-len(h.counts)+1)...)
	}
	h.counts[b-h.low]++
	h.total++
}

func (h *histogram) percentiles() Percentiles {
	return Percentiles{P50: h.quantile(50), P99: h.quantile(99)}
}

// quantile returns the latency in seconds that percent of the latencies do not exceed.
func (h *histogram) quantile(percent int64) float64 {
	rank := (h.total*percent + 99) / 100
	for i, n := range h.counts {
		if rank -= int64(n); rank <= 0 {
			b := h.low + i
			width := int64(1) << (b/parts - 4)
			return time.Duration((parts+int64(b%parts))*width + width/2).Seconds()
		}
	}
	return 0
}
