package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/internal/argument"
)

// Codec encodes the payloads and outputs of jobs for the store, and decodes them for handlers. Package payload has one that
// compresses and encrypts. Implementations are safe for concurrent use.
type Codec interface {
	// Encode returns what a store keeps of a payload or output, which may be plain itself. What it encodes begins with SealedPrefix.
	// bound names what the text belongs to, and Decode gets the same.
	Encode(queue, bound string, plain []byte) ([]byte, error)
	// Decode returns the text that Encode got. It is called only with texts for which Sealed is true. An error that wraps ErrNoKey
	// means that another worker may have the key; after any other error the text cannot be read by anybody.
	Decode(bound string, sealed []byte) ([]byte, error)
}

// SealedPrefix is how encoded payloads and outputs begin. They are JSON objects.
const SealedPrefix = `{"$tenet_payload":`

// ErrNoKey is returned for a text that was encrypted with a key that this process does not have.
var ErrNoKey = errors.New("the key is missing")

// Sealed reports whether a payload or output was encoded by a Codec.
func Sealed(text []byte) bool { return bytes.HasPrefix(text, []byte(SealedPrefix)) }

// plainSize estimates the size of a plain text that was encoded in n bytes: without base64, and without the at most 1 KiB that describes
// and protects it. The encoded text states a size too, but whoever enqueues it can write any number there.
func plainSize(n int) int { return max(n-1<<10, 0) / 4 * 3 }

// Seal describes an encoded text to whoever cannot read it.
type Seal struct {
	Version     int    `json:"$tenet_payload"`
	Key         string `json:"key,omitempty"` // ID of the key; "" if the text is not encrypted
	Compression string `json:"zip,omitempty"`
	Size        int    `json:"size"` // of the plain text in bytes
}

// ReadSeal returns the description of an encoded text, and false for any other text.
func ReadSeal(text []byte) (Seal, bool) {
	var s Seal
	ok := Sealed(text) && json.Unmarshal(text, &s) == nil
	return s, ok
}

// String says what is hidden: "encrypted with key k2, 1234 bytes".
func (s Seal) String() string {
	how := "encrypted with key " + s.Key
	if s.Key == "" {
		how = "compressed with " + s.Compression
	}
	return fmt.Sprintf("%s, %d bytes", how, s.Size)
}

// WithCodec makes the client encode payloads. A nil codec panics.
func WithCodec(codec Codec) ClientOption {
	argument.Need(codec != nil, "job: WithCodec: the codec")
	return func(c *Client) { c.codec = codec }
}

// WithWorkerCodec makes the worker decode payloads before its handlers see them, encode outputs, and decode the outputs of needs. A
// worker without a codec does not run jobs with encoded payloads. A nil codec panics.
func WithWorkerCodec(codec Codec) WorkerOption {
	argument.Need(codec != nil, "job: WithWorkerCodec: the codec")
	return func(s *settings) { s.codec = codec }
}

// Seal returns requests whose payloads are encoded as the client's codec wants, for the EnqueueTx of a store.
func (c *Client) Seal(requests ...Request) ([]Request, error) {
	list, err := inserts(requests, c.maxPayload)
	if err != nil {
		return nil, err
	}
	sealed := make([]Request, len(requests))
	for i := range list {
		if err := c.seal(i, &list[i]); err != nil {
			return nil, err
		}
		sealed[i] = requests[i]
		sealed[i].Payload = json.RawMessage(list[i].Payload)
		sealed[i].MaxPayload = max(requests[i].MaxPayload, len(list[i].Payload)) // the limit is that of the payload before
	}
	return sealed, nil
}

// seal encodes the payload of an insert, unless it is encoded already, as in an import of exported jobs.
func (c *Client) seal(index int, in *Insert) error {
	if c.codec == nil || Sealed(in.Payload) {
		return nil
	}
	encoded, err := c.codec.Encode(in.Queue, boundPayload(in.Type), in.Payload)
	if err != nil {
		return &RequestError{Index: index, Field: "payload", Problem: err.Error()}
	}
	in.Payload = encoded
	return nil
}

func boundPayload(jobType string) string { return "payload " + jobType }
func boundOutput(jobType string) string  { return "output " + jobType }

// Open decodes a payload of a job of the type, or returns it unchanged if it was not encoded. A nil codec has no keys.
func Open(codec Codec, jobType string, payload []byte) ([]byte, error) {
	return unseal(codec, boundPayload, jobType, payload)
}

// OpenOutput is Open for an output.
func OpenOutput(codec Codec, jobType string, output []byte) ([]byte, error) {
	return unseal(codec, boundOutput, jobType, output)
}

func unseal(codec Codec, bound func(jobType string) string, jobType string, text []byte) ([]byte, error) {
	if !Sealed(text) {
		return text, nil
	}
	if codec != nil {
		return codec.Decode(bound(jobType), text)
	}
	seal, ok := ReadSeal(text)
	if !ok {
		return nil, errors.New("job: the encoded text is not a JSON object")
	}
	return nil, fmt.Errorf("job: it is %s, and this process has no codec: %w", seal, ErrNoKey)
}
