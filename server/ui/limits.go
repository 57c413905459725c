package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/server/api"
)

// limitsView is the page of limits.
type limitsView struct{ Limits []limitRow }

// limitRow is a limit with its buckets in use.
type limitRow struct {
	api.Limit
	ID         string // of its part of the page
	Of, OfPath string // what it bounds: "queue mail"
	Bound      string // "5 at a time per meta.tenant"
	Document   string // what the document says, where a setting stands above it
	Jobs       string // the filter of the jobs that it bounds
	Buckets    []bucketRow
	More       int // buckets in use that are not shown
	Places     int // of a bucket; 0 for no bound
}

// bucketRow is a bucket of a limit.
type bucketRow struct {
	job.BucketUse
	Name        string // of the key; "all jobs" without one
	HeldJobs    string // filters, empty for a key that is kept as a hash
	WaitingJobs string
	Full        bool // no job gets a place at once
}

func limitsPage() *page {
	return &page{path: "limits", nav: "Limits", title: "Limits", file: "limits", load: func(r *request) (any, error) {
		list, err := readLimits(r)
		return limitsView{Limits: lists.Map(list, newLimitRow)}, err
	}}
}

func readLimits(r *request) ([]api.Limit, error) {
	var list api.Limits
	err := r.get("/v1/limits", nil, &list)
	return list.Limits, err
}

func newLimitRow(l api.Limit) limitRow {
	row := limitRow{Limit: l, Bound: boundText(l.InForce), Of: "queue " + l.Queue, OfPath: "queues/" + url.PathEscape(l.Queue), Jobs: term(job.FieldQueue, l.Queue)}
	if l.Type != "" {
		row.Of, row.Jobs = "type "+l.Type, term(job.FieldType, l.Type)
		row.OfPath = ""
	}
	if l.Source == "setting" && l.Document != nil {
		row.Document = boundText(l.Document)
	}
	for _, b := range l.Use.Fullest {
		row.Buckets = append(row.Buckets, newBucketRow(&row, b))
	}
	row.ID = anchor(row.Of + "/" + l.Name)
	if l.InForce != nil {
		row.Places = l.InForce.Concurrency
	}
	row.More = max(l.Use.Buckets-len(l.Use.Fullest), 0)
	return row
}

func newBucketRow(l *limitRow, b job.BucketUse) bucketRow {
	row := bucketRow{BucketUse: b, Name: b.Key, Full: b.Waiting > 0}
	jobs := l.Jobs
	switch {
	case b.Key == "":
		row.Name = "all jobs"
	case strings.Contains(b.Key, hashedKey): // no filter selects its jobs
		return row
	default:
		jobs += " " + b.Key
	}
	row.HeldJobs, row.WaitingJobs = "state:ready,running "+jobs, "state:waiting "+jobs
	return row
}

// anchor makes an ID of an element of a name, which may hold anything.
func anchor(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "at-" + hex.EncodeToString(sum[:6])
}

// hashedKey begins what is kept of keys that are too long, and of secrets.
const hashedKey = "sha256:"

// boundText describes the values of a limit.
func boundText(v *api.LimitValues) string {
	if v == nil {
		return "off"
	}
	var parts []string
	if v.Concurrency > 0 {
		parts = append(parts, number(v.Concurrency)+" at a time")
	}
	if v.Rate != nil {
		parts = append(parts, fmt.Sprintf("%s per %s, burst %s", number(v.Rate.Count), seconds(v.Rate.Per), number(v.Rate.Burst)))
	}
	if v.Order == string(policy.OrderStrict) {
		parts = append(parts, "strict order")
	}
	text := strings.Join(parts, ", ")
	if len(v.Key) > 0 {
		text += " per " + strings.Join(v.Key, ", ")
	}
	return text
}
