package ui

import (
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

const recordsPath = "/v1/idempotency"

// recordSearch is what the page of records shows.
type recordSearch struct {
	ID       api.RecordID
	State    string
	States   []idempotency.State
	Filtered bool
	Unknown  []recordRow // to resolve; on the first page of all records
	More     bool        // there are more of them
	Records  []recordRow
	Next     string
	Command  string
}

type recordRow struct {
	api.Record
	Path    string // of its page
	Unknown bool   // its outcome is to be resolved
	Live    bool   // its effect may be running
}

func newRecordRow(r *request, record api.Record) recordRow {
	return recordRow{
		Record: record, Path: r.ui.href("idempotency/record", "tenant_id", record.TenantID, "operation", record.Operation, "key", record.Key),
		Unknown: record.State == idempotency.Unknown || record.Lapsed, Live: record.State == idempotency.InFlight && !record.Lapsed,
	}
}

// Command is the command line of "tenet idempotency" for the record.
func (r recordRow) Command(verb string, more ...string) string {
	return recordCommand(verb, api.RecordID{TenantID: r.TenantID, Operation: r.Operation, Key: r.Key}, more...)
}

func recordCommand(verb string, id api.RecordID, more ...string) string {
	return commandOn(id.Key, append(recordFlags(verb, id), more...)...)
}

// recordFlags begin a command about a record. Its key follows the other flags.
func recordFlags(verb string, id api.RecordID) []string {
	parts := []string{"idempotency", verb}
	if id.TenantID != "" {
		parts = append(parts, "--tenant", id.TenantID)
	}
	if id.Operation != "" {
		parts = append(parts, "--operation", id.Operation)
	}
	return parts
}

// recordID reads the name of a record from the page's address.
func recordID(q url.Values) api.RecordID {
	return api.RecordID{TenantID: q.Get("tenant_id"), Operation: q.Get("operation"), Key: q.Get("key")}
}

func recordQuery(id api.RecordID) url.Values {
	return url.Values{"tenant_id": {id.TenantID}, "operation": {id.Operation}, "key": {id.Key}}
}

// most records of a page, and most that the first page shows to resolve.
const (
	recordPageSize = "100"
	unknownShown   = "20"
)

func recordsPage() *page {
	return &page{path: "idempotency", nav: "Idempotency", title: "Idempotency", file: "records", moving: true, load: func(r *request) (any, error) {
		out := recordSearch{ID: recordID(r.query), State: r.query.Get("state"), States: []idempotency.State{
			idempotency.Unknown, idempotency.InFlight, idempotency.Completed, idempotency.Failed, idempotency.Released,
		}}
		out.Filtered = out.State != "" || out.ID != api.RecordID{}
		if out.ID.Key != "" {
			return out, out.get(r)
		}
		var err error
		if !out.Filtered && r.query.Get("cursor") == "" {
			var next api.Cursor
			if out.Unknown, next, err = listRecords(r, url.Values{"state": {string(idempotency.Unknown)}, "limit": {unknownShown}}); err != nil {
				return nil, err
			}
			out.More = next != ""
		}
		return out, out.list(r)
	}}
}

// get looks up one record by its name.
func (s *recordSearch) get(r *request) error {
	s.Command = recordCommand("get", s.ID)
	var record api.Record
	err := r.get(recordsPath+"/record", recordQuery(s.ID), &record)
	if answered(err, http.StatusNotFound) {
		return nil
	}
	state := record.State
	if record.Lapsed { // as the list of a state has it
		state = idempotency.Unknown
	}
	if err == nil && (s.State == "" || s.State == string(state)) {
		s.Records = []recordRow{newRecordRow(r, record)}
	}
	return err
}

// list lists records in the order of their names.
func (s *recordSearch) list(r *request) (err error) {
	filter := []string{"state", s.State, "tenant_id", s.ID.TenantID, "operation", s.ID.Operation}
	query := params.Of(append(filter, "limit", recordPageSize, "cursor", r.query.Get("cursor"))...)
	s.Command = recordCommand("list", s.ID)
	if s.State != "" {
		s.Command = recordCommand("list", s.ID, "--state", s.State)
	}
	var next api.Cursor
	s.Records, next, err = listRecords(r, query)
	s.Next = r.next("idempotency", next, filter...)
	return err
}

func listRecords(r *request, query url.Values) (rows []recordRow, next api.Cursor, err error) {
	var found api.RecordPage
	err = r.get(recordsPath, query, &found)
	return lists.Map(found.Records, func(record api.Record) recordRow { return newRecordRow(r, record) }), found.Next, err
}

// recordView is what the page of one record shows.
type recordView struct {
	recordRow
	MayShow     bool // the caller may see the result
	Shown       bool // the result is shown
	Binary      bool // the result is not text
	PossibleJob bool // the key may be the ID of a job
}

// Title names the page.
func (v recordView) Title() string { return "Record " + v.Key }

func recordPage() *page {
	return &page{path: "idempotency/record", nav: "Idempotency", file: "record", moving: true, load: func(r *request) (any, error) {
		id := recordID(r.query)
		query := recordQuery(id)
		shown := r.query.Get("result") == "show"
		if shown {
			query.Set("result", "true")
		}
		var record api.Record
		if err := r.get(recordsPath+"/record", query, &record); err != nil {
			return nil, err
		}
		out := recordView{
			recordRow: newRecordRow(r, record), Shown: shown, Binary: !utf8.Valid(record.Result), PossibleJob: len(record.Key) == 36,
			MayShow: (&policystore.Token{Scopes: r.who.Scopes}).Has(policystore.ScopeOperate),
		}
		return out, nil
	}}
}
