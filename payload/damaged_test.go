package payload

import (
	"encoding/base64"
	"strings"
	"testing"
)

// TestKeysBehindALongCommentAreNotLost reads more than a file of keys may have: an error, or all keys.
func TestKeysBehindALongCommentAreNotLost(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString(make([]byte, 32))
	line := "# " + strings.Repeat("x", 1021) + "\n"
	keys, err := ReadKeys(strings.NewReader(strings.Repeat(line, 99) + "k2 " + secret + "\n#" + strings.Repeat("x", 1024-len("k2 "+secret+"\n#\n")) + "\n" + "k1 " + secret + "\n"))
	if err == nil && len(keys.IDs()) != 2 {
		t.Errorf("keys %v", keys.IDs())
	}
}

// TestDecodeWithoutData decodes what Encode never makes.
func TestDecodeWithoutData(t *testing.T) {
	_, err := New(Options{}).Decode("payload t", []byte(`{"$tenet_payload":1}`))
	if err == nil {
		t.Error("accepted")
	}
}
