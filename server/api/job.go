package api

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/tenetdev/tenet/internal/storable"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// Job is a stored job.
type Job struct {
	ID                string            `json:"id"`
	Type              string            `json:"type"`
	Queue             string            `json:"queue"`
	State             job.State         `json:"state" enum:"waiting,scheduled,ready,running,completed,dead,cancelled"`
	WaitsFor          string            `json:"waits_for,omitempty" doc:"What a waiting job waits for: needs, for the jobs of its flow that it needs; a limit and its key, for a place; limits, before its limits have been applied."`
	Flow              string            `json:"flow,omitempty" doc:"The ID of the flow, for a job of one."`
	Node              string            `json:"node,omitempty" doc:"The name of the job in its flow."`
	Attempts          int               `json:"attempts" doc:"The number of attempts made."`
	Failures          int               `json:"failures" doc:"The number of attempts that count against the maximum."`
	MaxAttempts       int               `json:"max_attempts" doc:"The maximum number of attempts; 0 for the policy's."`
	Priority          int               `json:"priority" doc:"The priority, from 0 (highest) to 9."`
	RunAt             time.Time         `json:"run_at"`
	CreatedAt         time.Time         `json:"created_at"`
	StartedAt         time.Time         `json:"started_at,omitzero" doc:"Start of the first attempt that ran."`
	FinishedAt        time.Time         `json:"finished_at,omitzero"`
	FailedAt          time.Time         `json:"failed_at,omitzero"`
	CancelRequestedAt time.Time         `json:"cancel_requested_at,omitzero"`
	UniqueKey         string            `json:"unique_key,omitempty"`
	Timeout           float64           `json:"timeout,omitempty" doc:"The timeout of one attempt, in seconds; 0 for the policy's."`
	Worker            string            `json:"worker,omitempty"`
	LeaseUntil        time.Time         `json:"lease_until,omitzero"`
	ClaimedAt         time.Time         `json:"claimed_at,omitzero"`
	Meta              map[string]string `json:"meta,omitempty"`
	Payload           json.RawMessage   `json:"payload,omitempty" doc:"Secrets are redacted unless secrets=true was asked for."`
	PayloadBase64     []byte            `json:"payload_base64,omitempty" doc:"A payload that is not JSON in UTF-8."`
	Reason            policy.Reason     `json:"reason,omitempty"`
	Cause             string            `json:"cause,omitempty" doc:"The cause of death, the same for jobs that died of the same cause."`
	LastError         string            `json:"last_error"`
	Output            json.RawMessage   `json:"output,omitempty"`
	OutputBase64      []byte            `json:"output_base64,omitempty" doc:"An output that is not JSON in UTF-8."`
	Refusals          int               `json:"refusals,omitempty" doc:"The number of refusals in a row by budgets and breakers."`
	RefusedReason     policy.Reason     `json:"refused_reason,omitempty"`
	RefusedAt         time.Time         `json:"refused_at,omitzero"`
	History           []Attempt         `json:"history,omitzero" doc:"Attempts, oldest first. Lists leave it out."`
}

// Attempt is an attempt in a job's history.
type Attempt struct {
	Attempt  int                `json:"attempt"`
	Fence    int64              `json:"fence"`
	Kind     job.Kind           `json:"kind,omitempty"`
	Worker   string             `json:"worker"`
	Started  time.Time          `json:"started"`
	Finished time.Time          `json:"finished"`
	Outcome  job.AttemptOutcome `json:"outcome"`
	Reason   policy.Reason      `json:"reason"`
	Error    string             `json:"error"`
	Stack    string             `json:"stack,omitempty"`
	Delay    float64            `json:"delay" doc:"The wait until the next attempt, in seconds."`
	Count    int                `json:"count" doc:"The number of refusals in a row; otherwise 1."`
}

// NewJob describes a record with its history, which may be nil.
func NewJob(r *job.Record, history []job.Attempt) Job {
	j := Job{
		ID: r.ID, Type: r.Type, Queue: r.Queue, State: r.State, WaitsFor: r.WaitsFor, Flow: r.Flow, Node: r.Node, Attempts: r.Attempts(), Failures: r.Failures, MaxAttempts: r.MaxAttempts,
		Priority: r.Priority, RunAt: r.RunAt, CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, FailedAt: r.FailedAt,
		CancelRequestedAt: r.CancelRequestedAt, UniqueKey: r.UniqueKey, Timeout: r.Timeout.Seconds(), Worker: r.Worker, LeaseUntil: r.LeaseUntil,
		ClaimedAt: r.ClaimedAt, Meta: r.Meta, Reason: r.Reason, Cause: r.Cause, LastError: r.LastError, Refusals: r.Refusals, RefusedReason: r.RefusedReason,
		RefusedAt: r.RefusedAt,
	}
	j.Payload, j.PayloadBase64 = split(r.Payload)
	j.Output, j.OutputBase64 = split(r.Output)
	if history != nil {
		j.History = make([]Attempt, 0, len(history))
	}
	for _, a := range history {
		j.History = append(j.History, Attempt{
			Attempt: a.Number, Fence: a.Fence, Kind: a.Kind, Worker: a.Worker, Started: a.Started, Finished: a.Finished, Outcome: a.Outcome,
			Reason: a.Reason, Error: a.Error, Stack: a.Stack, Delay: a.Delay.Seconds(), Count: a.Count,
		})
	}
	return j
}

// Record returns the job as stores return it.
func (j *Job) Record() (*job.Record, []job.Attempt) {
	r := &job.Record{
		ID: j.ID, Type: j.Type, Queue: j.Queue, State: j.State, WaitsFor: j.WaitsFor, Flow: j.Flow, Node: j.Node, Priority: j.Priority, Payload: join(j.Payload, j.PayloadBase64), Meta: j.Meta,
		Timeout: Duration(j.Timeout), MaxAttempts: j.MaxAttempts, UniqueKey: j.UniqueKey, CreatedAt: j.CreatedAt, RunAt: j.RunAt,
		Failures: j.Failures, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt, FailedAt: j.FailedAt, LastError: j.LastError, Reason: j.Reason, Cause: j.Cause,
		Output: join(j.Output, j.OutputBase64), Worker: j.Worker, LeaseUntil: j.LeaseUntil, ClaimedAt: j.ClaimedAt,
		CancelRequestedAt: j.CancelRequestedAt, Refusals: j.Refusals, RefusedReason: j.RefusedReason, RefusedAt: j.RefusedAt,
	}
	var history []job.Attempt
	for _, a := range j.History {
		history = append(history, job.Attempt{
			Number: a.Attempt, Fence: a.Fence, Kind: a.Kind, Worker: a.Worker, Started: a.Started, Finished: a.Finished, Outcome: a.Outcome,
			Reason: a.Reason, Error: a.Error, Stack: a.Stack, Delay: Duration(a.Delay), Count: a.Count,
		})
	}
	return r, history
}

// split returns bytes as JSON if they are JSON that every reader can take, and otherwise as bytes.
func split(raw []byte) (json.RawMessage, []byte) {
	if len(raw) > 0 && (!json.Valid(raw) || !storable.JSON(raw)) {
		return nil, raw
	}
	return raw, nil
}

func join(raw json.RawMessage, other []byte) []byte {
	if len(raw) > 0 {
		return raw
	}
	return other
}

// Duration returns a number of seconds as a duration, to the nanosecond.
func Duration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// JobFilter selects jobs. All that is given holds; an absent field selects all. An empty list or text is refused: a program that found no
// IDs does not mean all jobs.
type JobFilter struct {
	Filter        string      `json:"filter,omitempty" pattern:"\\S" patternDescription:"not blank" maxLength:"8192" doc:"For example: state:dead queue:mail type:\"mail:*\" error:timeout meta.tenant:acme payload.order.id:42 before:2h" example:"state:dead queue:mail"`
	IDs           []string    `json:"ids,omitempty" minItems:"1" maxItems:"10000"`
	Queue         string      `json:"queue,omitempty" minLength:"1"`
	Type          string      `json:"type,omitempty" minLength:"1"`
	States        []job.State `json:"states,omitempty" enum:"waiting,scheduled,ready,running,completed,dead,cancelled" minItems:"1" maxItems:"7"`
	Error         string      `json:"error,omitempty" minLength:"1" doc:"Part of the last error."`
	CreatedBefore time.Time   `json:"created_before,omitzero"`
	CreatedAfter  time.Time   `json:"created_after,omitzero"`
}

// NewJobFilter describes a filter.
func NewJobFilter(f job.Filter) JobFilter {
	return JobFilter{f.Terms.String(), f.IDs, f.Queue, f.Type, f.States, f.ErrorContains, f.CreatedBefore, f.CreatedAfter}
}

// Parse returns the filter as stores take it. An error is of type *filter.Error, or says that a field was given twice.
func (f JobFilter) Parse(now time.Time) (job.Filter, error) {
	out, err := job.ParseFilter(f.Filter, now)
	switch {
	case err != nil:
		return out, err
	case len(out.IDs) > 0 && len(f.IDs) > 0, len(out.States) > 0 && len(f.States) > 0,
		!out.CreatedBefore.IsZero() && !f.CreatedBefore.IsZero(), !out.CreatedAfter.IsZero() && !f.CreatedAfter.IsZero():
		return out, errTwice
	}
	out.IDs, out.States = append(out.IDs, f.IDs...), append(out.States, f.States...)
	out.Queue, out.Type, out.ErrorContains = f.Queue, f.Type, f.Error
	if out.CreatedBefore.IsZero() {
		out.CreatedBefore = f.CreatedBefore
	}
	if out.CreatedAfter.IsZero() {
		out.CreatedAfter = f.CreatedAfter
	}
	return out, out.Check()
}

var errTwice = errors.New("IDs, states or times stand in the filter and beside it; write them once")

// JobSearch asks for a page of jobs.
type JobSearch struct {
	Filter  JobFilter `json:"filter,omitzero"`
	Cursor  Cursor    `json:"cursor,omitempty" maxLength:"512" doc:"The next of the page before."`
	Limit   int       `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"100" doc:"The most jobs of a page. Large payloads end it earlier: only the last page has no next."`
	Secrets bool      `json:"secrets,omitempty" doc:"Show secrets in payloads and metadata; needs the scope operate."`
}

// JobPage is a page of jobs in the order of their IDs.
type JobPage struct {
	Jobs []Job  `json:"jobs" nullable:"false"`
	Next Cursor `json:"next,omitempty" doc:"The cursor of the next page, absent on the last one."`
}

// JobChange applies an action to jobs.
type JobChange struct {
	Filter JobFilter `json:"filter" doc:"Jobs in a state to which the action does not apply are not selected."`
	After  string    `json:"after,omitempty" maxLength:"64" doc:"Only jobs with higher IDs: the next of the change that this one continues."`
	Limit  int       `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"1000"`
}

// Changed lists the jobs that were changed.
type Changed struct {
	IDs  []string `json:"ids" nullable:"false"`
	Next string   `json:"next,omitempty" doc:"Continues the change, as after. Absent if no further job was selected."`
}

// NewJobRequest is a job to be stored. Its durations are bounded to the 10 years of job.MaxDelay.
type NewJobRequest struct {
	Type          string            `json:"type" minLength:"1"`
	Payload       json.RawMessage   `json:"payload,omitempty" doc:"Any JSON; absent is null."`
	PayloadBase64 []byte            `json:"payload_base64,omitempty" doc:"A payload that is not JSON in UTF-8, instead of payload."`
	Queue         string            `json:"queue,omitempty"`
	RunAt         time.Time         `json:"run_at,omitzero" doc:"The earliest start; absent is now."`
	MaxAttempts   int               `json:"max_attempts,omitempty" minimum:"0" doc:"The maximum number of attempts; 0 for the policy's."`
	Priority      int               `json:"priority,omitempty" minimum:"0" maximum:"9"`
	Timeout       float64           `json:"timeout,omitempty" minimum:"0" maximum:"315360000" doc:"The timeout of one attempt, in seconds; 0 for the policy's."`
	UniqueKey     string            `json:"unique_key,omitempty"`
	UniqueFor     float64           `json:"unique_for,omitempty" minimum:"0" maximum:"315360000" doc:"How long the key is held, in seconds; 0 until the job has finished."`
	Meta          map[string]string `json:"meta,omitempty"`
}

// Request returns the job as a job.Client takes it.
func (r *NewJobRequest) Request() job.Request {
	payload := []byte(r.Payload)
	if len(r.PayloadBase64) > 0 {
		payload = r.PayloadBase64
	}
	if len(payload) == 0 {
		payload = []byte("null")
	}
	return job.Request{
		Type: r.Type, Payload: payload, Queue: r.Queue, RunAt: r.RunAt, MaxAttempts: r.MaxAttempts, Priority: r.Priority,
		Timeout: Duration(r.Timeout), UniqueKey: r.UniqueKey, UniqueFor: Duration(r.UniqueFor), Meta: r.Meta,
	}
}

// FromInsert describes a job as a job.Client hands it to its store. The server gives it an ID of its own.
func FromInsert(in job.Insert) NewJobRequest {
	r := NewJobRequest{
		Type: in.Type, Queue: in.Queue, RunAt: in.RunAt, MaxAttempts: in.MaxAttempts, Priority: in.Priority, Timeout: in.Timeout.Seconds(),
		UniqueKey: in.UniqueKey, UniqueFor: in.UniqueFor.Seconds(), Meta: in.Meta,
	}
	r.Payload, r.PayloadBase64 = split(in.Payload)
	return r
}

// MaxBatch is how many jobs one request can enqueue, and how many one can change.
const MaxBatch = 1000

// Enqueue stores jobs, all or none.
type Enqueue struct {
	Jobs []NewJobRequest `json:"jobs" minItems:"1" maxItems:"1000" nullable:"false"`
}

// Receipt is the result of enqueuing one job.
type Receipt struct {
	ID         string         `json:"id" doc:"The ID of the job, or of the one that existed."`
	Existed    bool           `json:"existed" doc:"A job with the same unique key existed, and nothing was changed."`
	Durability job.Durability `json:"durability"`
}

// Receipts are in the order of the jobs that were enqueued.
type Receipts struct {
	Receipts []Receipt `json:"receipts" nullable:"false"`
}

// QueueStats counts the jobs of a queue.
type QueueStats struct {
	job.QueueStats
	OldestReady float64 `json:"oldest_ready_seconds" doc:"How long the oldest ready job has been due."`
}

// Stats counts jobs by queue and state.
type Stats struct {
	Queues map[string]QueueStats `json:"queues" nullable:"false"`
}

// NewStats describes what a store counted.
func NewStats(stats map[string]job.QueueStats) Stats {
	s := Stats{Queues: make(map[string]QueueStats, len(stats))}
	for name, q := range stats {
		s.Queues[name] = QueueStats{q, q.OldestReady.Seconds()}
	}
	return s
}

// Stats returns the counts as stores return them.
func (s Stats) Stats() map[string]job.QueueStats {
	stats := make(map[string]job.QueueStats, len(s.Queues))
	for name, q := range s.Queues {
		q.QueueStats.OldestReady = Duration(q.OldestReady)
		stats[name] = q.QueueStats
	}
	return stats
}

// Pulse has a number for each part of a server's stores. It grows when something in the part has changed since the server was
// first asked.
type Pulse struct {
	Jobs      uint64 `json:"jobs"`      // their counts by queue and state, and paused queues
	Documents uint64 `json:"documents"` // revisions and rollouts
	Audit     uint64 `json:"audit"`     // also changes of tokens and records, which are operators' actions
	Clients   uint64 `json:"clients"`   // what they have and are to have
}

// Queues lists the queues that are or were paused.
type Queues struct {
	Queues []job.QueueState `json:"queues" nullable:"false"`
}

// QueueSwitch pauses or resumes a queue.
type QueueSwitch struct {
	Paused bool      `json:"paused"`
	Reason string    `json:"reason,omitempty" maxLength:"1000"`
	Until  time.Time `json:"until,omitzero" doc:"When the queue resumes by itself; absent for never."`
}

// Workers lists the live workers.
type Workers struct {
	Workers []job.WorkerInfo `json:"workers" nullable:"false"`
}

// Where a setting comes from.
const (
	SourceDocument = "document" // or file, or code, of the workers and the server
	SourceOperator = "operator"
)

// Setting is what an operator has set.
type Setting struct {
	Kind  job.SettingKind `json:"kind"`
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value,omitempty" doc:"Absent where the default of the workers applies again."`
	By    string          `json:"by,omitempty"`
	At    time.Time       `json:"at,omitzero"`
}

// Settings lists what operators have set.
type Settings struct {
	Version  int64     `json:"version" doc:"Grows with every change."`
	Settings []Setting `json:"settings" nullable:"false"`
}

// SettingChange sets a value.
type SettingChange struct {
	Value   json.RawMessage `json:"value,omitempty" doc:"Absent or null for the default of the workers."`
	Version *int64          `json:"version,omitempty" doc:"If present, the change is refused unless this is still the version of the settings."`
}

// Periodic is a periodic job.
type Periodic struct {
	Name     string    `json:"name"`
	Cron     string    `json:"cron"`
	TimeZone string    `json:"time_zone"`
	Missed   string    `json:"missed"`
	Next     time.Time `json:"next"`
	Type     string    `json:"type"`
	Queue    string    `json:"queue"`
	Source   string    `json:"source" enum:"document,operator"`
	By       string    `json:"by,omitempty" doc:"The operator who set it."`
	At       time.Time `json:"at,omitzero" doc:"When the operator set it."`
}

// PeriodicList lists periodic jobs.
type PeriodicList struct {
	Periodic []Periodic `json:"periodic" nullable:"false"`
}

// JobFind asks for the newest jobs that a filter selects.
type JobFind struct {
	Filter  JobFilter `json:"filter,omitzero"`
	Below   string    `json:"below,omitempty" maxLength:"64" doc:"Only jobs with lower IDs: the next of the search that this one continues."`
	Limit   int       `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"100" doc:"The most jobs of an answer. Large payloads end it earlier: only the last one has no next."`
	Within  float64   `json:"within,omitempty" minimum:"0" maximum:"10" default:"2" doc:"Seconds after which the search stops where no index leads to the jobs."`
	Secrets bool      `json:"secrets,omitempty" doc:"Show secrets in payloads and metadata; needs the scope operate."`
}

// JobFound is what a search has found, newest first.
type JobFound struct {
	Jobs      []Job    `json:"jobs" nullable:"false"`
	Next      string   `json:"next,omitempty" doc:"Continues the search, as below. Absent if there are no more."`
	Unindexed []string `json:"unindexed,omitempty" doc:"Fields of the filter that have no index."`
}

// JobCounting asks how many jobs a filter selects.
type JobCounting struct {
	Filter JobFilter `json:"filter,omitzero"`
}

// JobCount is a number of jobs.
type JobCount struct {
	Count int  `json:"count"`
	Exact bool `json:"exact" doc:"If false, there are at least this many."`
}

// Indexes lists the indexed fields of metadata and payloads.
type Indexes struct {
	Fields []string `json:"fields" nullable:"false"`
}
