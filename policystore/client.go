package policystore

import "time"

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
