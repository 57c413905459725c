package protocol

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// Bounds of an envelope.
const (
	// MaxBody is the largest document in bytes.
	MaxBody = 1 << 20
	// MaxEnvelope is the largest envelope in bytes: JSON can escape a byte of the document as six.
	MaxEnvelope = 6*MaxBody + 64<<10
	// MaxEndorsements is the largest number of endorsements in an envelope.
	MaxEndorsements = 16
)

// Errors of a verification.
var (
	ErrTampered  = errors.New("protocol: the signature does not match the content")
	ErrUntrusted = errors.New("protocol: the signing key is not trusted")
)

// Envelope is a signed revision of a document.
type Envelope struct {
	Document string `json:"document"`
	Revision int64  `json:"revision"`
	// Hash is that of the compiled document: the same policies have the same hash.
	Hash string `json:"hash"`
	// Body is the document as it was published, YAML or JSON.
	Body      string    `json:"body"`
	Published time.Time `json:"published"`
	// Key is the public Ed25519 key that the signature belongs to. Being in the envelope does not make it trusted.
	Key          []byte        `json:"key"`
	Endorsements []Endorsement `json:"endorsements,omitempty"`
	// Signature of all fields above except Endorsements, which carry their own.
	Signature []byte `json:"signature"`
}

// Endorsement is a statement by the owner of one key that another key may sign in its place.
type Endorsement struct {
	Key       []byte `json:"key"`
	By        []byte `json:"by"`
	Signature []byte `json:"signature"`
}

// The prefixes keep a signature of one kind of message from being taken for another kind.
const (
	envelopeDomain    = "tenet policy envelope 1\n"
	endorsementDomain = "tenet key endorsement 1\n"
)

// message returns the bytes that are signed: the domain, then each text with its length in front, the revision and the time
// of publication in microseconds since 1970. Numbers are eight big-endian bytes.
func (e *Envelope) message() []byte {
	m := []byte(envelopeDomain)
	m = appendText(m, e.Document)
	m = binary.BigEndian.AppendUint64(m, uint64(e.Revision))
	m = appendText(m, e.Hash)
	m = binary.BigEndian.AppendUint64(m, uint64(e.Published.UnixMicro()))
	return appendText(m, e.Body)
}

func appendText(to []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint64(to, uint64(len(text))), text...)
}

func endorsementMessage(key []byte) []byte { return append([]byte(endorsementDomain), key...) }

// Sign sets Key and Signature. The time of publication is truncated to microseconds, which is what the signature covers.
func (e *Envelope) Sign(key ed25519.PrivateKey) {
	e.Published = e.Published.UTC().Truncate(time.Microsecond)
	e.Key = publicOf(key)
	e.Signature = ed25519.Sign(key, e.message())
}

func publicOf(key ed25519.PrivateKey) []byte {
	public, _ := key.Public().(ed25519.PublicKey)
	return public
}

// Endorse states that key may sign in place of the key of by.
func Endorse(by ed25519.PrivateKey, key ed25519.PublicKey) Endorsement {
	return Endorsement{Key: key, By: publicOf(by), Signature: ed25519.Sign(by, endorsementMessage(key))}
}

// Verify reports whether one of the trusted keys signed the envelope, directly or through endorsements. Without trusted keys
// it only checks that the signature belongs to the envelope's own key, for a client that pins the first key it sees.
// It returns ErrTampered or ErrUntrusted.
func (e *Envelope) Verify(trusted ...ed25519.PublicKey) error {
	if len(e.Key) != ed25519.PublicKeySize || !ed25519.Verify(e.Key, e.message(), e.Signature) {
		return fmt.Errorf("%w: revision %d of %q", ErrTampered, e.Revision, e.Document)
	}
	if len(trusted) == 0 || e.reaches(trusted) {
		return nil
	}
	return fmt.Errorf("%w: %s; if it is the server's, which GET /v1/signing-key shows, "+
		"configure it (Keys, --policy-key) and start with an empty cache", ErrUntrusted, FormatKey(e.Key))
}

// reaches follows endorsements from the trusted keys until one reaches the signing key.
func (e *Envelope) reaches(trusted []ed25519.PublicKey) bool {
	reached := map[string]bool{}
	for _, key := range trusted {
		reached[string(key)] = true
	}
	for grown := true; grown && !reached[string(e.Key)]; {
		grown = false
		for _, n := range e.Endorsements {
			if reached[string(n.By)] && !reached[string(n.Key)] && n.valid() {
				reached[string(n.Key)], grown = true, true
			}
		}
	}
	return reached[string(e.Key)]
}

func (n *Endorsement) valid() bool {
	return len(n.By) == ed25519.PublicKeySize && len(n.Key) == ed25519.PublicKeySize && ed25519.Verify(n.By, endorsementMessage(n.Key), n.Signature)
}

// Encode writes the envelope as one line of JSON without a line break at its end.
func (e *Envelope) Encode() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return nil, fmt.Errorf("protocol: envelope: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// ReadEnvelope reads the output of Encode. It refuses unknown fields, trailing data and values out of bounds; it does not
// verify the signature.
func ReadEnvelope(data []byte) (*Envelope, error) {
	if len(data) > MaxEnvelope {
		return nil, fmt.Errorf("protocol: envelope: larger than %d bytes", MaxEnvelope)
	}
	var e Envelope
	if err := readStrictly(data, &e); err != nil {
		return nil, fmt.Errorf("protocol: envelope: %w", err)
	}
	switch {
	case CheckName(e.Document) != nil:
		return nil, fmt.Errorf("protocol: envelope: %w", CheckName(e.Document))
	case e.Revision < 1:
		return nil, fmt.Errorf("protocol: envelope: revision %d is below 1", e.Revision)
	case len(e.Body) > MaxBody:
		return nil, fmt.Errorf("protocol: envelope: body larger than %d bytes", MaxBody)
	case len(e.Hash) > maxHash:
		return nil, fmt.Errorf("protocol: envelope: hash longer than %d bytes", maxHash)
	case len(e.Endorsements) > MaxEndorsements:
		return nil, fmt.Errorf("protocol: envelope: more than %d endorsements", MaxEndorsements)
	}
	return &e, nil
}

const maxHash = 128

func readStrictly(data []byte, into any) error {
	if !utf8.Valid(data) { // encoding/json would replace invalid bytes
		return errors.New("not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the end")
	}
	return nil
}

// FormatKey writes a public key as text.
func FormatKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// ParseKey reads the output of FormatKey.
func ParseKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("protocol: not a public key; write the 44 base64 characters that the server prints")
	}
	return key, nil
}
