package policystore

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Scope is what a token or a person may do.
type Scope string

// The scopes. Each allows what its name says, and only admin allows everything.
const (
	ScopeRead    Scope = "read"    // read everything but tokens and hidden payloads
	ScopeReport  Scope = "report"  // follow documents and report, as client programs do
	ScopeOperate Scope = "operate" // change jobs, queues, periodic jobs and idempotency records
	ScopePublish Scope = "publish" // publish, roll out and roll back documents
	ScopeAdmin   Scope = "admin"   // everything, tokens included
)

// Scopes lists the scopes.
func Scopes() []Scope {
	return []Scope{ScopeRead, ScopeReport, ScopeOperate, ScopePublish, ScopeAdmin}
}

// Token is a bearer token. Its secret is not stored.
type Token struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"` // unique
	Hash   string  `json:"-"`    // SHA-256 of the secret, hexadecimal
	Scopes []Scope `json:"scopes"`
	// Queues and Documents bound the scopes to queues and documents of these names; a name that ends in * is a prefix. Empty
	// means all.
	Queues    []string  `json:"queues,omitempty"`
	Documents []string  `json:"documents,omitempty"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"` // zero for never
	Revoked   time.Time `json:"revoked,omitzero"`
	Creator   string    `json:"creator,omitempty"`
}

// Valid reports whether the token is neither expired nor revoked.
func (t *Token) Valid(now time.Time) bool {
	return (t.Expires.IsZero() || now.Before(t.Expires)) && (t.Revoked.IsZero() || now.Before(t.Revoked))
}

// Check returns an error that names the field: of a bound that is not a name, or an expiry that is not within the years 1 to 9999.
func (t *Token) Check() error {
	for _, bounds := range []struct {
		field string
		names []string
	}{{"queues", t.Queues}, {"documents", t.Documents}} {
		for _, name := range bounds.names {
			if name == "" || strings.ContainsFunc(name, unicode.IsControl) {
				return fmt.Errorf("%s: %q is not a name; leave the field out for a token that is bound to none", bounds.field, name)
			}
		}
	}
	if year := t.Expires.UTC().Year(); year < 1 || year > 9999 { // which JSON cannot hold
		return fmt.Errorf("expires: year %d is not within 1 to 9999", year)
	}
	return nil
}

// Has reports whether the token has a scope; admin stands for all.
func (t *Token) Has(s Scope) bool {
	return slices.Contains(t.Scopes, s) || slices.Contains(t.Scopes, ScopeAdmin)
}

// Setting is a small value that servers share, such as the signing keys.
type Setting struct {
	Name    string
	Version int64
	Value   []byte
}
