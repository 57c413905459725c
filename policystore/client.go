package policystore

import (
	"slices"
	"time"

	"github.com/tenetdev/tenet/rollout"
)

// ClientKey identifies a client of a document.
type ClientKey struct{ Document, ID string }

// Client is what is known of a program that follows a document.
type Client struct {
	Document string            `json:"document"`
	ID       string            `json:"id"`
	Labels   map[string]string `json:"labels,omitempty"`
	// Desired is the revision that the client should have, Delivered the last one sent, Applied the one that it said to be in
	// force, Refused the one that it could not use, for Reason. 0 means none.
	Desired   int64  `json:"desired"`
	Delivered int64  `json:"delivered"`
	Applied   int64  `json:"applied"`
	Refused   int64  `json:"refused,omitempty"`
	Reason    string `json:"reason,omitempty"`
	// Staleness is how long ago the client last heard from a server, as it said in its last report.
	Staleness time.Duration `json:"-"`
	LastSeen  time.Time     `json:"last_seen"`
	// Reported is what it last reported of its parts. A store that saves nil keeps what it has, and an empty one removes that; it
	// returns nil in place of an empty one.
	Reported *Reported `json:"-"`
}

// Reported is what a client reported of its parts.
type Reported struct {
	Mechanisms []Mechanism `json:"mechanisms,omitempty"`
	Pipelines  []Pipeline  `json:"pipelines,omitempty"`
	// Trial counts what the revision under trial would have decided otherwise; nil without one.
	Trial *rollout.Trial `json:"trial,omitempty"`
}

// Empty reports whether nothing was reported.
func (r *Reported) Empty() bool {
	return r == nil || len(r.Mechanisms) == 0 && len(r.Pipelines) == 0 && r.Trial == nil
}

// Stamped returns a copy with times as stores keep them.
func (r *Reported) Stamped() *Reported {
	if r == nil {
		return nil
	}
	out := &Reported{slices.Clone(r.Mechanisms), slices.Clone(r.Pipelines), r.Trial}
	for i := range out.Mechanisms {
		out.Mechanisms[i].Since = Stamp(out.Mechanisms[i].Since)
	}
	for i := range out.Pipelines {
		out.Pipelines[i].Begun = Stamp(out.Pipelines[i].Begun)
	}
	return out
}

// Mechanism is the state of a breaker, budget or limit of a client.
type Mechanism struct {
	Kind     string    `json:"kind"`  // breaker, budget or limit
	Name     string    `json:"name"`  // the key of a breaker or limit, the name of a budget
	State    string    `json:"state"` // open, half_open or closed; exhausted or available
	Since    time.Time `json:"since"` // when the state began
	Openings int64     `json:"openings,omitempty"`
	Refusals int64     `json:"refusals,omitempty"`
}

// Key returns the client's key.
func (c *Client) Key() ClientKey { return ClientKey{c.Document, c.ID} }

// ClientCount is a number of clients.
type ClientCount struct {
	Desired int64 `json:"desired"`
	Applied int64 `json:"applied"`
	Refused int64 `json:"refused,omitempty"`
	Clients int64 `json:"clients"`
}

// Pipeline holds the running totals of a consumer or producer since its client started.
type Pipeline struct {
	Kind        string    `json:"kind"` // consumer or producer
	Name        string    `json:"name"`
	Source      string    `json:"source,omitempty"` // kind of what it reads from, such as rabbitmq; empty if not known
	Sink        string    `json:"sink,omitempty"`   // kind of what it writes to
	Begun       time.Time `json:"begun"`            // the latest run
	Ended       bool      `json:"ended,omitempty"`  // the latest run has ended
	Rate        float64   `json:"rate"`             // transactions that ended, per second, between the last two reports
	Fetched     int64     `json:"fetched"`
	Success     int64     `json:"success"`
	Exception   int64     `json:"exception"`
	Failed      int64     `json:"failed"`
	Redelivered int64     `json:"redelivered"`
	Retries     int64     `json:"retries"`
	InFlight    int64     `json:"in_flight"`
	Lag         int64     `json:"lag,omitempty"`       // transactions that are ready at the source and have not been handed to any reader, if known
	LagKnown    bool      `json:"lag_known,omitempty"` // the source can tell
}
