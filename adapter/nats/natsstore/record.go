package natsstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/idempotency"
)

// A record's value is one line of JSON without the result, followed by the unchanged bytes of the result. A header repeats the
// time of expiry for Expire, which does not read values.
const (
	expiresHeader   = "Tenet-Expires"
	operationHeader = "KV-Operation"       // on a message that removes a key
	reasonHeader    = "Nats-Marker-Reason" // on a message by which the server replaced one that it removed
)

const (
	// ttlMargin is how long the server keeps an expired record, so that it does not remove the record before its expiry by any
	// client's clock.
	ttlMargin = time.Hour
	markerTTL = time.Hour
	maxTTL    = 100 * 365 * 24 * time.Hour // longer TTLs may overflow on the server
)

// encode returns the value and headers of a record, or of a deletion marker if r is nil.
func (s *Idempotency) encode(r *idempotency.Record, ttl bool) ([]byte, nats.Header, error) {
	header := nats.Header{}
	if r == nil {
		header.Set(operationHeader, "DEL")
		if ttl {
			header.Set(jetstream.MsgTTLHeader, seconds(markerTTL))
		}
		return []byte{}, header, nil
	}
	head := *r
	head.Result = nil
	line, err := json.Marshal(&head)
	if err != nil {
		return nil, nil, fmt.Errorf("encode: %w", err)
	}
	if !r.Expires.IsZero() {
		header.Set(expiresHeader, r.Expires.Format(time.RFC3339Nano))
		if left := r.Expires.Sub(s.now()); ttl && left < maxTTL {
			header.Set(jetstream.MsgTTLHeader, seconds(left+ttlMargin))
		}
	}
	return append(append(line, '\n'), r.Result...), header, nil
}

// seconds writes a TTL, which servers count in whole seconds and from 1.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((max(d, time.Second)+time.Second-1)/time.Second), 10)
}

func decode(value []byte) (*idempotency.Record, error) {
	line, result, ok := bytes.Cut(value, []byte{'\n'})
	if !ok {
		return nil, errors.New("the value is not a record; give the bucket to Tenet alone")
	}
	var r idempotency.Record
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if r.HasResult {
		r.Result = result
	}
	return &r, nil
}

func isMarker(h nats.Header) bool { return h.Get(operationHeader) != "" || h.Get(reasonHeader) != "" }
