package api

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/policystore"
)

// Record is an idempotency record.
type Record struct {
	TenantID    string               `json:"tenant_id"`
	Operation   string               `json:"operation"`
	Key         string               `json:"key"`
	Fingerprint string               `json:"fingerprint"`
	State       idempotency.State    `json:"state" enum:"in_flight,completed,failed,released,unknown"`
	Owner       string               `json:"owner"`
	Fence       int64                `json:"fence"`
	Lease       time.Time            `json:"lease,omitzero"`
	Lapsed      bool                 `json:"lapsed" doc:"The record is in flight under a lease that has ended, so the outcome is unknown."`
	Attempts    int                  `json:"attempts"`
	PolicyHash  string               `json:"policy_hash,omitempty"`
	HasResult   bool                 `json:"has_result"`
	ResultBytes int                  `json:"result_bytes" doc:"The size of the stored result; 0 in lists."`
	Result      []byte               `json:"result,omitempty" doc:"The stored result in base64, if the request has result=true."`
	Failure     *idempotency.Failure `json:"failure,omitempty"`
	Created     time.Time            `json:"created"`
	Completed   time.Time            `json:"completed,omitzero"`
	Expires     time.Time            `json:"expires,omitzero"`
}

// NewRecord describes a record without its result.
func NewRecord(r *idempotency.Record, now time.Time) Record {
	return Record{
		TenantID: r.Tenant, Operation: r.Operation, Key: r.Key, Fingerprint: r.Fingerprint, State: r.State, Owner: r.Owner, Fence: r.Fence,
		Lease: r.Lease, Lapsed: r.State == idempotency.InFlight && !r.Live(now), Attempts: r.Attempts, PolicyHash: r.PolicyHash,
		HasResult: r.HasResult, ResultBytes: len(r.Result), Failure: r.Failure, Created: r.Created, Completed: r.Completed, Expires: r.Expires,
	}
}

// Record returns the record as stores return it.
func (r *Record) Record() idempotency.Record {
	return idempotency.Record{
		ID: idempotency.ID{Tenant: r.TenantID, Operation: r.Operation, Key: r.Key}, Fingerprint: r.Fingerprint, State: r.State, Owner: r.Owner,
		Fence: r.Fence, Lease: r.Lease, Attempts: r.Attempts, PolicyHash: r.PolicyHash, HasResult: r.HasResult, Result: r.Result,
		Failure: r.Failure, Created: r.Created, Completed: r.Completed, Expires: r.Expires,
	}
}

// ClaimTag is the entity tag of a record under a claim. It changes whenever the record gets another claim.
func ClaimTag(c idempotency.Claim) string {
	return strconv.Quote(c.Owner + "." + strconv.FormatInt(c.Fence, 10))
}

// RecordPage is a page of records in the order of tenant, operation and key, without results.
type RecordPage struct {
	Records []Record `json:"records" nullable:"false"`
	Next    Cursor   `json:"next,omitempty"`
}

// RecordID names a record.
type RecordID struct {
	TenantID  string `json:"tenant_id,omitempty" maxLength:"255"`
	Operation string `json:"operation,omitempty" maxLength:"255"`
	Key       string `json:"key" minLength:"1" maxLength:"255"`
}

// ID returns the name as stores take it.
func (r RecordID) ID() idempotency.ID {
	return idempotency.ID{Tenant: r.TenantID, Operation: r.Operation, Key: r.Key}
}

// Resolution sets the outcome of a record whose outcome is unknown.
type Resolution struct {
	RecordID
	State     idempotency.State    `json:"state" enum:"completed,failed,released"`
	HasResult bool                 `json:"has_result,omitempty"`
	Result    []byte               `json:"result,omitempty"`
	Failure   *idempotency.Failure `json:"failure,omitempty"`
	TTL       float64              `json:"ttl" exclusiveMinimum:"0" maximum:"315360000" doc:"How long the record is kept from now on, in seconds."`
}

// Expire removes expired records.
type Expire struct {
	Limit int `json:"limit" minimum:"1" maximum:"10000"`
}

// Expired is how many records were removed.
type Expired struct {
	Removed int `json:"removed"`
}

// AuditLine is a line of an audit log: JSON lines, one of these each. An event that is not JSON is in Raw.
type AuditLine struct {
	Cursor string          `json:"cursor"`
	Event  json.RawMessage `json:"event,omitempty"`
	Raw    []byte          `json:"raw,omitempty"`
}

// Heads are the ends of the chains of an audit log.
type Heads struct {
	Heads []audit.Head `json:"heads" nullable:"false"`
}

// AuditVerify asks for the next part of a verification.
type AuditVerify struct {
	Heads  []audit.Head `json:"heads,omitempty" maxItems:"10000" doc:"Heads that the log must contain; of the first request, which has no cursor."`
	Cursor []byte       `json:"cursor,omitempty" doc:"That of the answer before."`
	Lines  int          `json:"lines,omitempty" minimum:"1" doc:"How many lines at most; fewer if the server's own bound is lower."`
}

// AuditVerified is how far a verification is.
type AuditVerified struct {
	Ended  bool                `json:"ended" doc:"The report is that of the whole log."`
	Cursor []byte              `json:"cursor,omitempty" doc:"For the next request; absent at the end."`
	Report *audit.VerifyReport `json:"report" doc:"Before the end only with faults that are certain, and without chains."`
}

// AuditReplay asks for the next part of a replay.
type AuditReplay struct {
	Document string `json:"document,omitempty" maxLength:"255" doc:"Says what this document would have changed; of the first request, as revision is."`
	Revision int64  `json:"revision,omitempty" minimum:"1" doc:"Of the document; the one in force if absent."`
	Cursor   []byte `json:"cursor,omitempty" doc:"That of the answer before."`
	Lines    int    `json:"lines,omitempty" minimum:"1" doc:"How many lines at most; fewer if the server's own bound is lower."`
}

// AuditReplayed is how far a replay is.
type AuditReplayed struct {
	Ended    bool                `json:"ended" doc:"The report is that of the whole log."`
	Cursor   []byte              `json:"cursor,omitempty" doc:"For the next request; absent at the end."`
	Revision int64               `json:"revision,omitempty" doc:"Of the document."`
	Report   *audit.ReplayReport `json:"report,omitempty" doc:"Without a document. Lists the first 100 divergences."`
	WhatIf   json.RawMessage     `json:"what_if,omitempty" doc:"With a document: what tenet audit replay --what-if -o json prints."`
}

// NewToken asks for a token.
type NewToken struct {
	Name      string              `json:"name" minLength:"1" maxLength:"100"`
	Scopes    []policystore.Scope `json:"scopes" enum:"read,report,operate,publish,admin" minItems:"1" maxItems:"5" nullable:"false"`
	Queues    []string            `json:"queues,omitempty" minItems:"1" maxItems:"100" doc:"Bounds the scopes to these queues; a name that ends in * is a prefix."`
	Documents []string            `json:"documents,omitempty" minItems:"1" maxItems:"100" doc:"Bounds the scopes to these documents."`
	Expires   time.Time           `json:"expires,omitzero"`
}

// CreatedToken is a new token with its secret, which is not shown again.
type CreatedToken struct {
	policystore.Token
	Secret string `json:"secret"`
}

// TokenPage is a page of tokens in the order of their IDs, without secrets.
type TokenPage struct {
	Tokens []policystore.Token `json:"tokens" nullable:"false"`
	Next   Cursor              `json:"next,omitempty"`
}

// Caller is who makes a request.
type Caller struct {
	Name      string              `json:"name"`
	Kind      string              `json:"kind" enum:"token,person,user,local" doc:"A person has signed in with OpenID Connect; a user is known to the program that the server is part of."`
	Scopes    []policystore.Scope `json:"scopes" nullable:"false"`
	Queues    []string            `json:"queues,omitempty" doc:"The queues to which the scopes are bound; absent for all."`
	Documents []string            `json:"documents,omitempty" doc:"The documents to which the scopes are bound; absent for all."`
	Expires   time.Time           `json:"expires,omitzero"`
	ReadOnly  bool                `json:"read_only" doc:"The server refuses all changes."`
	Methods   []string            `json:"methods" nullable:"false" doc:"How a browser can sign in."`
}

// SignIn begins the session of a browser.
type SignIn struct {
	Token string `json:"token" minLength:"1" maxLength:"1024"`
}

// SignInMethods lists how a browser can sign in.
type SignInMethods struct {
	Methods []string `json:"methods" nullable:"false" enum:"token,oidc" doc:"token: POST /v1/session; oidc: GET /v1/session/login."`
}
