package payload

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// keySize is the length of a key in bytes.
const keySize = 32

const (
	maxKeys   = 100
	maxKeyID  = 64
	maxKeyRow = 1024
	keyIDText = ".-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Keys are keys by ID, of which the first encrypts. They are immutable. Printing them shows only their IDs.
type Keys struct {
	first string
	ids   []string
	aeads map[string]cipher.AEAD
}

// Key is a key with its ID, at most 64 letters, digits, dots, hyphens and underscores. The secret has 32 bytes.
type Key struct {
	ID     string
	Secret []byte
}

// String returns the ID of the key.
func (k Key) String() string { return k.ID }

// GoString returns the ID of the key.
func (k Key) GoString() string { return "payload.Key{" + k.ID + "}" }

// NewKeys takes keys. The first encrypts; all of them decrypt. It returns an error without keys and for one that is not usable or given
// twice.
func NewKeys(list ...Key) (*Keys, error) {
	if len(list) == 0 || len(list) > maxKeys {
		return nil, fmt.Errorf("payload: %d keys; give 1 to %d", len(list), maxKeys)
	}
	k := &Keys{first: list[0].ID, aeads: map[string]cipher.AEAD{}}
	for i, one := range list {
		if one.ID == "" || len(one.ID) > maxKeyID || strings.Trim(one.ID, keyIDText) != "" {
			return nil, fmt.Errorf("payload: key %d: its ID is not 1 to %d letters, digits, dots, hyphens and underscores", i+1, maxKeyID)
		}
		if k.aeads[one.ID] != nil {
			return nil, fmt.Errorf("payload: key %s is given twice; give each key its own ID", one.ID)
		}
		if len(one.Secret) != keySize {
			return nil, fmt.Errorf("payload: key %s has %d bytes, not %d", one.ID, len(one.Secret), keySize)
		}
		block, err := aes.NewCipher(one.Secret)
		if err != nil {
			return nil, err
		}
		if k.aeads[one.ID], err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
		k.ids = append(k.ids, one.ID)
	}
	return k, nil
}

// ReadKeys reads keys from text: on each line an ID and 32 bytes in base64, such as "head -c 32 /dev/urandom | base64" prints. Empty
// lines and lines that begin with # are skipped. Errors name lines, never secrets.
func ReadKeys(r io.Reader) (*Keys, error) {
	if r == nil {
		return nil, errors.New("payload: ReadKeys: the reader is nil")
	}
	var list []Key
	limited := &io.LimitedReader{R: r, N: maxKeys*maxKeyRow + 1}
	lines := bufio.NewScanner(limited)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("payload: line %d: write an ID and a key in base64, separated by a space", n)
		}
		secret, err := base64.StdEncoding.DecodeString(fields[1])
		if err != nil {
			return nil, fmt.Errorf("payload: line %d: the key is not base64", n)
		}
		list = append(list, Key{fields[0], secret})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("payload: read keys: %w", err)
	}
	if limited.N <= 0 { // what follows would be lost
		return nil, fmt.Errorf("payload: the keys have more than %d bytes", maxKeys*maxKeyRow)
	}
	return NewKeys(list...)
}

// IDs lists the keys, that which encrypts first.
func (k *Keys) IDs() []string { return append([]string(nil), k.ids...) }
