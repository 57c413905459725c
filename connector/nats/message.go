package nats

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/pipeline"
)

// Headers of a message that a sink writes beside Nats-Msg-Id.
const (
	headerMetadata    = "Tenet-Metadata" // JSON, so that names and values may hold anything
	headerCorrelation = "Tenet-Correlation-Id"
	headerParent      = "Tenet-Parent-Id"
	headerAttempts    = "Tenet-Attempts"
)

// transaction makes a transaction of a message.
func transaction(m jetstream.Msg, meta *jetstream.MsgMetadata) *pipeline.Transaction {
	h := m.Headers()
	id := h.Get(jetstream.MsgIDHeader)
	if id == "" {
		id = fmt.Sprintf("%s:%d", meta.Stream, meta.Sequence.Stream)
	}
	if len(h) == 0 {
		return pipeline.NewTransaction(id, m.Data())
	}
	metadata := map[string]string{}
	for name, values := range h {
		if !strings.HasPrefix(name, "Nats-") && !strings.HasPrefix(name, "Tenet-") && len(values) > 0 {
			metadata[name] = values[0]
		}
	}
	var own map[string]string
	if json.Unmarshal([]byte(h.Get(headerMetadata)), &own) == nil {
		maps.Copy(metadata, own)
	}
	options := []pipeline.TransactionOption{
		pipeline.WithMetadata(metadata), pipeline.WithCorrelation(h.Get(headerCorrelation)), pipeline.WithParent(h.Get(headerParent)),
	}
	if n, err := strconv.Atoi(h.Get(headerAttempts)); err == nil && n > 0 {
		options = append(options, pipeline.WithAttempts(n))
	}
	return pipeline.NewTransaction(id, m.Data(), options...)
}

// message makes a message of a transaction.
func message(subject string, t *pipeline.Transaction) (*nats.Msg, error) {
	m := nats.NewMsg(subject)
	m.Data = t.Payload()
	m.Header.Set(jetstream.MsgIDHeader, t.ID())
	if all := t.AllMetadata(); len(all) > 0 {
		text, err := json.Marshal(all)
		if err != nil {
			return nil, fmt.Errorf("nats: metadata: %w", err)
		}
		m.Header.Set(headerMetadata, string(text))
	}
	for name, value := range map[string]string{headerCorrelation: t.Correlation(), headerParent: t.Parent()} {
		if value != "" {
			m.Header.Set(name, value)
		}
	}
	if n := t.Attempts(); n > 0 {
		m.Header.Set(headerAttempts, strconv.Itoa(n))
	}
	for _, values := range m.Header {
		if strings.ContainsAny(values[0], "\r\n") {
			return nil, fmt.Errorf("nats: transaction %q: IDs in headers cannot hold line ends", t.ID())
		}
	}
	return m, nil
}
