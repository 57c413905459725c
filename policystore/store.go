package policystore

import (
	"context"
	"errors"
	"time"
)

// Store keeps everything that servers share: documents, clients, rollouts and credentials. Implementations are safe for
// concurrent use by any number of servers if their engine is, return only copies, and pass the suite in package storetest.
// Times are UTC, truncated to microseconds.
type Store interface {
	Documents
	Clients
	Rollouts
	Credentials
}

// Errors of stores.
var (
	ErrNotFound = errors.New("policystore: not found")
	ErrConflict = errors.New("policystore: conflict: changed by somebody else")
	ErrClosed   = errors.New("policystore: store closed")
)

// Documents keeps documents and their revisions.
type Documents interface {
	// Documents returns the documents whose names come after a name, by name, at most limit.
	Documents(ctx context.Context, after string, limit int) ([]Document, error)
	// Document returns a document, or ErrNotFound.
	Document(ctx context.Context, name string) (Document, error)
	// Save writes the state of a document together with new revisions of it, all or nothing, if the stored version is still
	// d.Version; 0 means that the document does not exist yet. It returns the document with its new version, or ErrConflict,
	// also for a revision whose number exists.
	Save(ctx context.Context, d Document, add ...Revision) (Document, error)
	// Revision returns a revision, or ErrNotFound.
	Revision(ctx context.Context, name string, number int64) (Revision, error)
	// Revisions returns the revisions of a document whose numbers are below a number, or from the newest for 0, newest first,
	// at most limit, without their bodies.
	Revisions(ctx context.Context, name string, below int64, limit int) ([]Revision, error)
	// Watch returns a channel that receives when a document may have been saved, by this process or another, within a second.
	// Signals may be merged and may be false. The channel is closed when ctx ends.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Clients keeps what servers know of programs that follow documents.
type Clients interface {
	// SaveClients inserts or replaces clients by document and ID. A client whose LastSeen is older than the stored one is left out.
	SaveClients(ctx context.Context, list []Client) error
	// Clients returns clients of a document, or of all for "", whose document and ID come after a cursor, in the order of
	// document and ID, at most limit.
	Clients(ctx context.Context, document string, after ClientKey, limit int) ([]Client, error)
	// ReportingClients returns the clients that reported something and were seen since a time, whose document and ID come after a
	// cursor, in the order of document and ID, at most limit.
	ReportingClients(ctx context.Context, since time.Time, after ClientKey, limit int) ([]Client, error)
	// CountClients counts the clients of a document seen since a time, by desired, applied and refused revision.
	CountClients(ctx context.Context, document string, since time.Time) ([]ClientCount, error)
	// RemoveClients removes clients last seen before a time, at most limit, and returns their number.
	RemoveClients(ctx context.Context, before time.Time, limit int) (int, error)
}

// Rollouts keeps the evidence of rollouts, and elects who leads them.
type Rollouts interface {
	// AddEvidence adds all items or none. It skips an item if its rollout, step and revision already hold the same or a later batch
	// of its source. After an error, a source repeats its batch unchanged before it sends another.
	AddEvidence(ctx context.Context, list []Evidence) error
	// Evidence returns the sums of a rollout, by step and revision, without sources.
	Evidence(ctx context.Context, rollout string) ([]Evidence, error)
	// Lead makes server the leader of a task for ttl from now if there is none or it is server itself, and reports whether it is. A
	// server that stops shortens its lead to 1 ms, so that another leads at once.
	Lead(ctx context.Context, task, server string, ttl time.Duration) (bool, error)
}

// Credentials keeps tokens and settings.
type Credentials interface {
	// AddToken stores a token, or returns ErrConflict if its ID, name or hash exists.
	AddToken(ctx context.Context, t Token) error
	// Token returns the token with a hash, or ErrNotFound. Whether it is expired or revoked is for the caller to judge.
	Token(ctx context.Context, hash string) (Token, error)
	// Tokens returns the tokens whose IDs come after an ID, by ID, at most limit.
	Tokens(ctx context.Context, after string, limit int) ([]Token, error)
	// RevokeToken sets the time from which a token is refused, or returns ErrNotFound. The first time set stays.
	RevokeToken(ctx context.Context, id string, at time.Time) error
	// Setting returns a setting, or ErrNotFound.
	Setting(ctx context.Context, name string) (Setting, error)
	// SaveSetting writes a setting if the stored version is still s.Version; 0 means that it does not exist yet. It returns
	// the setting with its new version, or ErrConflict.
	SaveSetting(ctx context.Context, s Setting) (Setting, error)
}
