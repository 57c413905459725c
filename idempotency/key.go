package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/tenetdev/tenet/internal/canonical"
)

// maxKey bounds keys, tenants and operations, in bytes.
const maxKey = 255

// Parts are the parts of a computed key. Different parts give different keys, and equal parts give the same key in every
// process and language.
type Parts struct {
	Operation     string
	TenantID      string // "" means none
	CorrelationID string // "" means none
	// Params are further parts: any values that encoding/json can encode. The order of members is irrelevant at any depth;
	// null, "" and an absent member differ. Numbers are those of JSON: 1, 1.0 and json.Number("1e0") are the same.
	Params map[string]any
}

// Key returns the SHA-256, in lower-case hexadecimal, of the canonical JSON (RFC 8785) of the object with the members
// operation, tenant_id, correlation_id and additional_params.
//
// It returns a *[KeyError], which names the path, for values without an unambiguous encoding: numbers beyond ±2⁵³, which
// other languages cannot represent (write them as strings), NaN, infinity, text that is not valid UTF-8, values nested more
// than 100 deep, and types that encoding/json refuses.
func (p Parts) Key() (string, error) {
	for _, part := range []struct{ field, value string }{
		{"operation", p.Operation}, {"tenant_id", p.TenantID}, {"correlation_id", p.CorrelationID},
	} {
		if !utf8.ValidString(part.value) {
			return "", &KeyError{part.field, problemUTF8}
		}
	}
	params := map[string]any{}
	for name, value := range p.Params {
		plain, err := member("params", name, value)
		if err != nil {
			return "", err
		}
		params[name] = plain
	}
	return hash("params", map[string]any{
		"operation": p.Operation, "tenant_id": p.TenantID, "correlation_id": p.CorrelationID, "additional_params": params,
	})
}

// Fingerprint returns the SHA-256, in lower-case hexadecimal, of a request's canonical JSON, under the rules of [Parts.Key].
func Fingerprint(request any) (string, error) {
	plain, err := plainOf("request", request)
	if err != nil {
		return "", err
	}
	return hash("request", plain)
}

// FingerprintBytes returns the SHA-256, in lower-case hexadecimal, of byte strings such as the method, path and body of a
// request. Each is hashed after its length, so that the boundaries between them count.
func FingerprintBytes(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hash(path string, plain any) (string, error) {
	key, err := canonical.Hash(plain)
	if err != nil {
		return "", &KeyError{path, err.Error()} // not reached in tests: plain values can be encoded
	}
	return key, nil
}

const problemUTF8 = "is not valid UTF-8"

// CheckKey returns a *[KeyError] for a key that is empty, longer than 255 bytes, or holds control characters or invalid
// UTF-8.
func CheckKey(key string) error {
	if key == "" {
		return &KeyError{"key", "is empty"}
	}
	return checkPart("key", key)
}

// checkPart is CheckKey for a part of an ID that may be empty.
func checkPart(field, s string) error {
	if len(s) > maxKey {
		return &KeyError{field, fmt.Sprintf("has %d bytes, more than %d", len(s), maxKey)}
	}
	plain := true
	for i := range len(s) {
		plain = plain && s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return nil
	}
	if !utf8.ValidString(s) {
		return &KeyError{field, problemUTF8}
	}
	for i, r := range s {
		if unicode.IsControl(r) {
			return &KeyError{field, fmt.Sprintf("holds the control character %U at byte %d", r, i)}
		}
	}
	return nil
}
