package natspipe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/tenetdev/tenet/pipeline"
)

// MetaSubject is the metadata in which a transaction carries its message's subject, if the stream or the consumer has more than
// one.
const MetaSubject = "nats_subject"

// Headers of messages besides the metadata.
const (
	headerID          = nats.MsgIdHdr
	headerCorrelation = "Tenet-Correlation-Id"
	headerParent      = "Tenet-Parent-Id"
	headerAttempts    = "Tenet-Attempts"
	headerMore        = "Tenet-Metadata" // a JSON object of metadata that cannot be headers
	headerTrueID      = "Tenet-Id"       // an ID that cannot be a header unchanged
	headerReserved    = "Tenet-Reserved" // a JSON object of metadata named like one of these headers
)

// reserved reports whether a header of this name has a meaning to this package.
func reserved(name string) bool {
	switch name {
	case headerCorrelation, headerParent, headerAttempts, headerMore, headerTrueID, headerReserved:
		return true
	}
	return false
}

// plain reports whether a header of this name and value is read back unchanged and has no meaning to the server.
func plain(name, value string) bool {
	if name == "" || len(name) >= 5 && strings.EqualFold(name[:5], "nats-") {
		return false
	}
	separates := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }
	return !strings.ContainsFunc(name, separates) && printable(value)
}

func printable(value string) bool {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	return !strings.ContainsFunc(value, control) && strings.TrimSpace(value) == value
}

// message returns the message of a transaction.
func message(t *pipeline.Transaction, subject string) (*nats.Msg, error) {
	m := &nats.Msg{Subject: subject, Data: t.Payload(), Header: nats.Header{}}
	more, own := map[string]string{}, map[string]string{}
	put := func(name, value string) {
		if plain(name, value) {
			m.Header.Set(name, value)
		} else {
			more[name] = value
		}
	}
	if printable(t.ID()) {
		m.Header.Set(headerID, t.ID())
	} else {
		sum := sha256.Sum256([]byte(t.ID()))
		m.Header.Set(headerID, hex.EncodeToString(sum[:]))
		put(headerTrueID, t.ID())
	}
	if t.Correlation() != "" {
		put(headerCorrelation, t.Correlation())
	}
	if t.Parent() != "" {
		put(headerParent, t.Parent())
	}
	if t.Attempts() > 0 {
		put(headerAttempts, strconv.Itoa(t.Attempts()))
	}
	for name, value := range t.AllMetadata() {
		switch {
		case name == MetaSubject: // that of the message it was read from
		case reserved(name):
			own[name] = value
		default:
			put(name, value)
		}
	}
	for header, texts := range map[string]map[string]string{headerMore: more, headerReserved: own} {
		if len(texts) == 0 {
			continue
		}
		text, err := json.Marshal(texts)
		if err != nil {
			return nil, kind.Wrap("metadata", err)
		}
		m.Header.Set(header, string(text))
	}
	return m, nil
}

// transaction reads a message. The ID of a message without one is STREAM:SEQUENCE, which stays the same over redeliveries.
func transaction(m *nats.Msg, at *nats.MsgMetadata, withSubject bool) *pipeline.Transaction {
	id := m.Header.Get(headerID)
	if id == "" {
		id = at.Stream + ":" + strconv.FormatUint(at.Sequence.Stream, 10)
	}
	if !withSubject && (len(m.Header) == 0 || len(m.Header) == 1 && m.Header[headerID] != nil) {
		return pipeline.NewTransaction(id, m.Data)
	}
	metadata := make(map[string]string, len(m.Header))
	for name, values := range m.Header {
		if !strings.HasPrefix(name, "Nats-") && name != headerMore && name != headerReserved {
			metadata[name] = strings.Join(values, ", ")
		}
	}
	maps.Copy(metadata, object(m, headerMore))
	if withSubject {
		metadata[MetaSubject] = m.Subject
	}
	take := func(name string) string {
		value := metadata[name]
		delete(metadata, name)
		return value
	}
	if whole := take(headerTrueID); whole != "" {
		id = whole
	}
	attempts, _ := strconv.Atoi(take(headerAttempts))
	correlation, parent := take(headerCorrelation), take(headerParent)
	maps.Copy(metadata, object(m, headerReserved))
	return pipeline.NewTransaction(id, m.Data, pipeline.WithCorrelation(correlation), pipeline.WithParent(parent),
		pipeline.WithAttempts(attempts), pipeline.WithMetadata(metadata))
}

// object reads a header that holds a JSON object of strings. It returns nil for anything else.
func object(m *nats.Msg, header string) (texts map[string]string) {
	if text := m.Header.Get(header); text == "" || json.Unmarshal([]byte(text), &texts) != nil {
		return nil
	}
	return texts
}
