package protocol

import (
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// Bounds of the mechanisms and pipelines of a report.
const (
	MaxMechanisms = 64
	MaxPipelines  = 32
	MaxName       = 512 // bytes of the name of a mechanism or pipeline
)

// Kinds of mechanisms.
const (
	Breaker = "breaker"
	Budget  = "budget"
	Limit   = "limit"
)

// Mechanism is the state of a breaker, budget or limit in a client. One that has neither opened nor refused an attempt since the
// client started is not reported.
type Mechanism struct {
	Kind string `json:"kind"` // breaker, budget or limit
	// Name is the key of a breaker or limit, and the name of a budget.
	Name string `json:"name"`
	// State of a breaker is open, half_open or closed. A budget or limit is exhausted while its last refusal is less than a minute
	// old, and else available.
	State string `json:"state"`
	// Seconds is how long ago the state began.
	Seconds float64 `json:"seconds"`
	// Openings of a breaker, and attempts that the mechanism refused, since the client started.
	Openings int64 `json:"openings,omitempty"`
	Refusals int64 `json:"refusals,omitempty"`
}

// Kinds of pipelines.
const (
	Consumer = "consumer"
	Producer = "producer"
)

// Pipeline holds the running totals of a consumer or producer since the client started.
type Pipeline struct {
	Kind string `json:"kind"` // consumer or producer
	Name string `json:"name"`
	// Source and Sink are the kinds of what it reads from and writes to, such as file or rabbitmq; empty if not known.
	Source string `json:"source,omitempty"`
	Sink   string `json:"sink,omitempty"`
	// Seconds is how long ago its latest run began; Ended says that the run has ended.
	Seconds float64 `json:"seconds"`
	Ended   bool    `json:"ended,omitempty"`
	// Rate is how many transactions ended per second since the report before, redelivered ones aside.
	Rate        float64 `json:"rate"`
	Fetched     int64   `json:"fetched"`
	Success     int64   `json:"success"`
	Exception   int64   `json:"exception"`
	Failed      int64   `json:"failed"`
	Redelivered int64   `json:"redelivered"`
	Retries     int64   `json:"retries"` // of all steps
	InFlight    int64   `json:"in_flight"`
	// Lag is how many transactions are ready at the source and have not been handed to any reader, if LagKnown.
	Lag      int64 `json:"lag,omitempty"`
	LagKnown bool  `json:"lag_known,omitempty"`
}

func (p *Pipeline) check() error {
	switch {
	case p.Kind != Consumer && p.Kind != Producer:
		return fmt.Errorf("kind: %.40q is not consumer or producer", p.Kind)
	case len(p.Source) > MaxLabel || len(p.Sink) > MaxLabel || !printable(p.Source) || !printable(p.Sink):
		return fmt.Errorf("source, sink: at most %d printable bytes", MaxLabel)
	case min(p.Fetched, p.Success, p.Exception, p.Failed, p.Redelivered, p.Retries, p.InFlight, p.Lag) < 0:
		return fmt.Errorf("%s: a count is negative", p.Kind)
	case !(p.Rate >= 0 && p.Rate <= math.MaxInt64): // NaN too
		return fmt.Errorf("rate: %g is out of range", p.Rate)
	}
	return checkNamed(p.Name, p.Seconds)
}

var mechanismStates = map[string][]string{
	Breaker: {"open", "half_open", "closed"}, Budget: {"exhausted", "available"}, Limit: {"exhausted", "available"},
}

func (m *Mechanism) check() error {
	switch {
	case mechanismStates[m.Kind] == nil:
		return fmt.Errorf("kind: %.40q is not breaker, budget or limit", m.Kind)
	case !slices.Contains(mechanismStates[m.Kind], m.State):
		return fmt.Errorf("state: a %s is not %.40q", m.Kind, m.State)
	case m.Openings < 0 || m.Refusals < 0:
		return fmt.Errorf("%s: a count is negative", m.Kind)
	}
	return checkNamed(m.Name, m.Seconds)
}

// checkNamed checks what mechanisms and pipelines have in common.
func checkNamed(name string, seconds float64) error {
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
		return fmt.Errorf("name: write 1 to %d bytes of UTF-8", MaxName)
	}
	if !(seconds >= 0 && seconds <= math.MaxInt64/float64(time.Second)/2) { // NaN too
		return fmt.Errorf("seconds: %g is out of range", seconds)
	}
	return nil
}

func (r *Report) checkParts() error {
	if r.Trial != nil {
		if err := r.Trial.Validate(); err != nil {
			return err
		}
	}
	if len(r.Mechanisms) > MaxMechanisms {
		return fmt.Errorf("mechanisms: more than %d", MaxMechanisms)
	}
	for i := range r.Mechanisms {
		if err := r.Mechanisms[i].check(); err != nil {
			return fmt.Errorf("mechanisms[%d]: %w", i, err)
		}
	}
	if len(r.Pipelines) > MaxPipelines {
		return fmt.Errorf("pipelines: more than %d", MaxPipelines)
	}
	for i := range r.Pipelines {
		if err := r.Pipelines[i].check(); err != nil {
			return fmt.Errorf("pipelines[%d]: %w", i, err)
		}
	}
	return nil
}
