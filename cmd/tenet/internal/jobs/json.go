package jobs

import (
	"encoding/json"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// JSON is a job as commands print it. Lists leave the history out.
type JSON struct {
	ID                string            `json:"id"`
	Type              string            `json:"type"`
	Queue             string            `json:"queue"`
	State             job.State         `json:"state"`
	Attempts          int               `json:"attempts"` // made
	Failures          int               `json:"failures"` // that count against the maximum
	CancelRequestedAt time.Time         `json:"cancel_requested_at,omitzero"`
	MaxAttempts       int               `json:"max_attempts"` // 0 is the policy's
	Priority          int               `json:"priority"`
	RunAt             time.Time         `json:"run_at"`
	CreatedAt         time.Time         `json:"created_at"`
	FinishedAt        time.Time         `json:"finished_at,omitzero"`
	UniqueKey         string            `json:"unique_key,omitempty"`
	Timeout           float64           `json:"timeout,omitempty"` // seconds
	Worker            string            `json:"worker,omitempty"`
	LeaseUntil        time.Time         `json:"lease_until,omitzero"`
	Meta              map[string]string `json:"meta,omitempty"`
	Payload           json.RawMessage   `json:"payload"`
	Reason            policy.Reason     `json:"reason,omitempty"`
	LastError         string            `json:"last_error"`
	Output            json.RawMessage   `json:"output,omitempty"`
	History           []attemptJSON     `json:"history,omitzero"`
}

// attemptJSON is a row of the history. The delay is in seconds.
type attemptJSON struct {
	Attempt  int                `json:"attempt"`
	Worker   string             `json:"worker"`
	Started  time.Time          `json:"started"`
	Finished time.Time          `json:"finished"`
	Outcome  job.AttemptOutcome `json:"outcome"`
	Reason   policy.Reason      `json:"reason"`
	Error    string             `json:"error"`
	Delay    float64            `json:"delay"`
	Count    int                `json:"count,omitempty"` // of refusals in a row
	Stack    string             `json:"stack,omitempty"`
}

// NewJSON returns a job for JSON output.
func NewJSON(r *job.Record) JSON {
	return JSON{
		ID: r.ID, Type: r.Type, Queue: r.Queue, State: r.State, Attempts: r.Attempts(), Failures: r.Failures, MaxAttempts: r.MaxAttempts, Priority: r.Priority,
		RunAt: r.RunAt, CancelRequestedAt: r.CancelRequestedAt, CreatedAt: r.CreatedAt, FinishedAt: r.FinishedAt, UniqueKey: r.UniqueKey, Timeout: cli.Seconds(r.Timeout), Worker: r.Worker,
		LeaseUntil: r.LeaseUntil, Meta: r.Meta, Payload: asJSON(r.Payload), Reason: r.Reason, LastError: r.LastError, Output: asJSON(r.Output),
	}
}

// WithHistory adds a history, which may be empty.
func (j JSON) WithHistory(list []job.Attempt) JSON {
	j.History = make([]attemptJSON, len(list))
	for i, h := range list {
		j.History[i] = attemptJSON{
			Attempt: h.Number, Worker: h.Worker, Started: h.Started, Finished: h.Finished, Outcome: h.Outcome, Reason: h.Reason, Error: h.Error,
			Delay: cli.Seconds(h.Delay), Stack: h.Stack,
		}
		if h.Outcome == job.AttemptRefused {
			j.History[i].Count = h.Count
		}
	}
	return j
}

// asJSON returns a payload that is valid JSON unchanged, and any other as a JSON string.
func asJSON(raw []byte) json.RawMessage {
	if len(raw) == 0 || json.Valid(raw) {
		return raw
	}
	text, err := json.Marshal(string(raw))
	if err != nil { // strings can always be encoded
		return nil
	}
	return text
}

// statsJSON is the output of "jobs stats".
type statsJSON struct {
	Queues map[string]queueStatsJSON `json:"queues"`
}

type queueStatsJSON struct {
	job.QueueStats
	OldestReady float64 `json:"oldest_ready_seconds"`
}

func newStatsJSON(stats map[string]job.QueueStats) statsJSON {
	s := statsJSON{Queues: make(map[string]queueStatsJSON, len(stats))}
	for name, q := range stats {
		s.Queues[name] = queueStatsJSON{q, cli.Seconds(q.OldestReady)}
	}
	return s
}
