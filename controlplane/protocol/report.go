package protocol

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tenetdev/tenet/rollout"
)

// Bounds of a report.
const (
	MaxReport    = 256 << 10 // bytes
	MaxClientID  = 200       // bytes
	MaxLabels    = 32
	MaxLabel     = 200  // bytes of a label's name, and of its value
	MaxReason    = 2048 // bytes
	MaxRevisions = 8    // with counters in one report
	maxSession   = 64
)

// Report tells the server what a client does with a document.
type Report struct {
	// Client is the ID of the client, Session one that it draws at random when it starts.
	Client  string            `json:"client"`
	Session string            `json:"session"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Applied is the revision in force, Refused a newer one that the client could not use, for Reason. 0 means none.
	Applied int64  `json:"applied"`
	Refused int64  `json:"refused,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Staleness is how many seconds ago the client last heard from a server.
	Staleness float64 `json:"staleness"`
	// Sequence numbers the reports of a session from 1. A report that is sent again keeps its number, so that the server
	// counts it once.
	Sequence int64 `json:"sequence"`
	// Counters are the calls that ended since the report before, by the revision under which they began.
	Counters []RevisionCounters `json:"counters,omitempty"`
	// Mechanisms are the breakers, budgets and limits that have opened or refused something, the worst first.
	Mechanisms []Mechanism `json:"mechanisms,omitempty"`
	// Pipelines are the consumers and producers that have run.
	Pipelines []Pipeline `json:"pipelines,omitempty"`
	// Trial counts what the revision under trial would have decided otherwise, since the client got it.
	Trial *rollout.Trial `json:"trial,omitempty"`
}

// RevisionCounters are the calls under one revision.
type RevisionCounters struct {
	Revision int64            `json:"revision"`
	Counters rollout.Counters `json:"counters"`
}

// ReadReport reads a report. It refuses unknown fields, trailing data and values out of bounds.
func ReadReport(data []byte) (*Report, error) {
	if len(data) > MaxReport {
		return nil, fmt.Errorf("protocol: report: larger than %d bytes", MaxReport)
	}
	var r Report
	err := readStrictly(data, &r)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return nil, fmt.Errorf("protocol: report: %w", err)
	}
	return &r, nil
}

func (r *Report) check() error {
	if err := CheckClient(r.Client, r.Labels); err != nil {
		return err
	}
	switch {
	case len(r.Session) > maxSession:
		return fmt.Errorf("session: longer than %d bytes", maxSession)
	case r.Applied < 0 || r.Refused < 0:
		return errors.New("a revision is negative")
	case len(r.Reason) > MaxReason:
		return fmt.Errorf("reason: longer than %d bytes", MaxReason)
	case !(r.Staleness >= 0 && r.Staleness <= math.MaxInt64/float64(time.Second)/2): // NaN too
		return fmt.Errorf("staleness: %g is out of range", r.Staleness)
	case r.Sequence < 1:
		return fmt.Errorf("sequence: %d is below 1", r.Sequence)
	case len(r.Counters) > MaxRevisions:
		return fmt.Errorf("counters: more than %d revisions", MaxRevisions)
	}
	for _, c := range r.Counters {
		if c.Revision < 1 {
			return fmt.Errorf("counters: revision %d is below 1", c.Revision)
		}
		if err := c.Counters.Validate(); err != nil {
			return err
		}
		if c.Counters.Spread != (rollout.Spread{}) {
			return errors.New("counters: spread is for servers to compute")
		}
	}
	return r.checkParts()
}

// CheckClient refuses a client ID that is empty, too long or not printable, and labels out of bounds.
func CheckClient(id string, labels map[string]string) error {
	if id == "" || len(id) > MaxClientID || !printable(id) {
		return fmt.Errorf("client ID: write 1 to %d printable bytes", MaxClientID)
	}
	if len(labels) > MaxLabels {
		return fmt.Errorf("labels: more than %d", MaxLabels)
	}
	for name, value := range labels {
		if name == "" || len(name) > MaxLabel || len(value) > MaxLabel || !printable(name) || !printable(value) {
			return fmt.Errorf("labels: names and values have at most %d printable bytes, and a name has at least one", MaxLabel)
		}
	}
	return nil
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// FormatLabels writes labels as the value of HeaderLabels: name=value, escaped as in a URL's query, sorted, joined by "&".
func FormatLabels(labels map[string]string) string {
	values := make(url.Values, len(labels))
	for name, value := range labels {
		values.Set(name, value)
	}
	return values.Encode()
}

// ParseLabels reads the value of HeaderLabels. A name may occur once.
func ParseLabels(header string) (map[string]string, error) {
	values, err := url.ParseQuery(header)
	if err != nil {
		return nil, fmt.Errorf("protocol: %s: write name=value pairs joined by &", HeaderLabels)
	}
	labels := make(map[string]string, len(values))
	for name, list := range values {
		if len(list) > 1 {
			return nil, fmt.Errorf("protocol: %s: %q occurs twice", HeaderLabels, name)
		}
		labels[name] = list[0]
	}
	return labels, nil
}
