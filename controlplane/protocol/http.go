package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Headers of requests, beside the standard ones.
const (
	// HeaderClient names the client. A request without it gets what is in force for everyone, and is not recorded.
	HeaderClient = "Tenet-Client"
	// HeaderLabels are the client's labels; see FormatLabels.
	HeaderLabels = "Tenet-Labels"
	// HeaderApplied is the number of the revision that the client has in force.
	HeaderApplied = "Tenet-Applied"
	// HeaderTrial is the number of the revision under trial, in answers to reports. It is absent without one.
	HeaderTrial = "Tenet-Trial"
)

// Media types.
const (
	TypeJSON   = "application/json"
	TypeStream = "text/event-stream"
)

// Times of the protocol.
const (
	// Heartbeat is how often a server writes to a silent stream. A client gives a stream up after three missed heartbeats.
	Heartbeat = 15 * time.Second
	// MaxWait is the longest that a server holds a long poll.
	MaxWait = 55 * time.Second
)

// EventRevision is the type of the event that carries an envelope.
const EventRevision = "revision"

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// CheckName refuses what cannot name a document: a name has 1 to 100 letters, digits, dots, underscores and hyphens, and
// begins with a letter or digit.
func CheckName(name string) error {
	if len(name) > 100 || !nameForm.MatchString(name) {
		return fmt.Errorf("protocol: document name %.120q: write 1 to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit", name)
	}
	return nil
}

// LivePath is the path of a document's current revision, below the server's address.
func LivePath(name string) string { return "/v1/documents/" + url.PathEscape(name) + "/live" }

// TrialPath is the path of a document's revision under trial.
func TrialPath(name string) string { return "/v1/documents/" + url.PathEscape(name) + "/trial/live" }

// ReportsPath is the path that takes reports on a document.
func ReportsPath(name string) string { return "/v1/documents/" + url.PathEscape(name) + "/reports" }

// ETag returns the entity tag of an encoded envelope.
func ETag(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// FormatWait writes the preference of a long poll (RFC 7240).
func FormatWait(d time.Duration) string {
	return "wait=" + strconv.Itoa(int(d/time.Second))
}

// ParseWait reads a Prefer header. It returns 0 if the header asks for no wait, and at most MaxWait.
func ParseWait(header string) time.Duration {
	for preference := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
		seconds, err := strconv.Atoi(strings.Trim(value, `"`))
		if strings.EqualFold(name, "wait") && err == nil && seconds > 0 {
			return min(time.Duration(min(seconds, 3600))*time.Second, MaxWait)
		}
	}
	return 0
}

// Event returns an encoded envelope as a server-sent event.
func Event(revision int64, encoded []byte) []byte {
	return fmt.Appendf(nil, "event: %s\nid: %d\ndata: %s\n\n", EventRevision, revision, encoded)
}
