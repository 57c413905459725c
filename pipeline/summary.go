package pipeline

import (
	"encoding/json"
	"time"
)

// Outcome is how a delivery ended.
type Outcome string

// The outcomes. Every delivery has exactly one.
const (
	Success     Outcome = "success"     // processed, and its success step succeeded
	Exception   Outcome = "exception"   // the exception handler or the dead-letter sink took it
	Failed      Outcome = "failed"      // neither; given back after a delay
	Redelivered Outcome = "redelivered" // not finished; given back
)

// Ended is a delivery that has ended.
type Ended struct {
	Delivery Delivery
	Outcome  Outcome
	// Err is nil after a success, a *TransactionError after an exception or a failure, and otherwise the reason why the
	// transaction was not finished.
	Err error
}

// Summary counts what a run did.
type Summary struct {
	Fetched     int `json:"fetched"`   // deliveries from the source, or transactions from the input
	Processed   int `json:"processed"` // transactions whose process or produce step succeeded
	Success     int `json:"success"`
	Exception   int `json:"exception"`
	Failed      int `json:"failed"`
	Redelivered int `json:"redelivered"`
	Retries     int `json:"retries"`   // attempts beyond the first of each step, fetching included
	Abandoned   int `json:"abandoned"` // the part of Redelivered that ignored its context and did not return
	// Unsettled counts acknowledgements that the source refused, or had not answered when the run ended. It delivers those
	// transactions again.
	Unsettled int `json:"unsettled"`
	// Elapsed is written in seconds.
	Elapsed time.Duration `json:"elapsed"`
}

// Ended returns how many deliveries have ended.
func (s Summary) Ended() int { return s.Success + s.Exception + s.Failed + s.Redelivered }

// MarshalJSON writes the elapsed time in seconds.
func (s Summary) MarshalJSON() ([]byte, error) {
	type plain Summary
	return json.Marshal(struct {
		plain
		Elapsed float64 `json:"elapsed"`
	}{plain(s), s.Elapsed.Seconds()})
}

func (s *Summary) count(o Outcome) {
	switch o {
	case Success:
		s.Success++
	case Exception:
		s.Exception++
	case Failed:
		s.Failed++
	case Redelivered:
		s.Redelivered++
	}
}

// Progress is the current state of a run.
type Progress struct {
	Summary     Summary       `json:"summary"`
	Concurrency int           `json:"concurrency"` // the highest number of transactions in flight
	InFlight    int           `json:"in_flight"`   // running transactions
	Buffered    int           `json:"buffered"`    // fetched and waiting
	Unsettled   int           `json:"unsettled"`   // ended and being acknowledged
	Empty       int           `json:"empty"`       // empty fetches in a row
	Oldest      time.Duration `json:"oldest"`      // how long the longest-running transaction has been running
}
