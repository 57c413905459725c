package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// noHash is written where a hash will be.
var noHash = strings.Repeat("0", 2*sha256.Size)

// chain gives events their places in the writer's own chain. Their hashes follow later, by a [sealer], when the next lines
// may be in the making.
type chain struct {
	id  string
	seq uint64 // of the last event
}

// line is where in an encoder's buffer a line ends, and where its members hash and prev_hash begin.
type line struct{ end, hash, before int }

// place gives e the next place in the chain and appends its line to w, without the hashes.
func (c *chain) place(w *encoder, e *Event) line {
	e.ChainID, e.Seq, e.PrevHash, e.Hash = c.id, c.seq+1, "", noHash
	if c.seq > 0 {
		e.PrevHash = noHash
	}
	c.seq++
	w.event(e)
	return line{end: len(w.b), hash: w.hash, before: w.before}
}

// sealer computes the hashes of a chain.
type sealer struct {
	hash   string // of the last sealed event
	digest hash.Hash
	sum    []byte
}

func newSealer() sealer { return sealer{digest: sha256.New()} }

// seal links e, whose line begins at start of b, to the event before it. Its hash covers the line without the member hash, so
// that a verifier can cut the member out and need not encode anything.
func (s *sealer) seal(b []byte, start int, l line, e *Event) {
	const hash, before, end = len(`,"hash":"`), len(`,"prev_hash":"`), len(`"`)
	e.PrevHash = s.hash
	if s.hash != "" {
		copy(b[l.before+before:], s.hash)
	}
	digits := b[l.hash+hash:][:len(noHash)]
	s.digest.Reset()
	s.digest.Write(b[start:l.hash])
	s.digest.Write(b[l.hash+hash+len(noHash)+end : l.end])
	s.sum = s.digest.Sum(s.sum[:0])
	hex.Encode(digits, s.sum)
	e.Hash = string(digits)
	s.hash = e.Hash
}

// sortedKeys appends the keys of m in the order of their UTF-16 code units, as RFC 8785 requires.
func sortedKeys(keys []string, m map[string]string) []string {
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareUTF16)
	return keys
}

// compareUTF16 differs from the order of bytes only between characters beyond the basic plane and those just below its
// end.
func compareUTF16(a, b string) int {
	if ascii(a) || ascii(b) {
		return strings.Compare(a, b)
	}
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
