package rollout

import (
	"crypto/sha256"
	"encoding/binary"
)

// Assign places a client in [0, 1). A step with share s selects the clients placed below s, so that a client selected at a
// share is selected at every larger one. Another seed places all clients anew.
//
// The place is the SHA-256 of the seed as eight big-endian bytes followed by the bytes of the client ID, of which the first
// 53 bits are read as a big-endian number and divided by 2^53. It never changes between versions.
func Assign(clientID string, seed uint64) float64 {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), clientID...))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}
