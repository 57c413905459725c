package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// chain is the end of the chain that a writer extends.
type chain struct {
	id   string
	seq  uint64
	hash string
}

// seal gives e the next place in the chain and appends its line to w. The line's hash goes over the line without the
// member hash, so that whoever checks it cuts that out and encodes nothing.
func (c *chain) seal(w *encoder, e *Event) {
	e.ChainID, e.Seq, e.PrevHash = c.id, c.seq+1, c.hash
	start := len(w.b)
	at := w.event(e)
	sum := sha256.Sum256(w.b[start:])
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	e.Hash = string(digits[:])
	const before, after = `"hash":"`, `",`
	w.b = slices.Grow(w.b, len(before)+len(digits)+len(after))
	tail := len(w.b) - at
	w.b = w.b[:len(w.b)+len(before)+len(digits)+len(after)]
	copy(w.b[len(w.b)-tail:], w.b[at:at+tail])
	member := w.b[at:at:cap(w.b)]
	member = append(member, before...)
	member = append(member, digits[:]...)
	_ = append(member, after...)
	c.seq, c.hash = e.Seq, e.Hash
}

func (c *chain) head() Head { return Head{ChainID: c.id, Seq: c.seq, Hash: c.hash} }

// newID makes a UUIDv7 (RFC 9562) of a time and 74 random bits.
func newID(now time.Time) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(now.UnixMilli())<<16|rand.Uint64()&0x0fff|0x7000)
	binary.BigEndian.PutUint64(raw[8:], rand.Uint64()>>2|1<<63)
	var id [36]byte
	hex.Encode(id[0:8], raw[0:4])
	hex.Encode(id[9:13], raw[4:6])
	hex.Encode(id[14:18], raw[6:8])
	hex.Encode(id[19:23], raw[8:10])
	hex.Encode(id[24:36], raw[10:16])
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
	return string(id[:])
}

// sortedKeys appends the keys of m in the order of their UTF-16 code units, as RFC 8785 wants it.
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
