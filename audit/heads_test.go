package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestA3HeadsAreSigned(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))
	public := key.Public().(ed25519.PublicKey)
	heads := []Head{{ChainID: "a", Seq: 3, Hash: strings.Repeat("ab", 32)}, {ChainID: "b", Seq: 1 << 40, Hash: strings.Repeat("cd", 32)}}
	signed, err := SignHeads(heads, start, key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(signed, "", "  ") // a person may have reformatted it
	if err != nil {
		t.Fatal(err)
	}
	for _, trusted := range []ed25519.PublicKey{public, nil} {
		got, err := VerifyHeads(data, trusted)
		if err != nil || !cmp.Equal(heads, got.Heads) || !got.Time.Equal(start) {
			t.Errorf("%v, %+v", err, got)
		}
	}
	if _, err := VerifyHeads(data, other.Public().(ed25519.PublicKey)); !errors.Is(err, ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	for _, change := range [][2]string{{`"seq": 3`, `"seq": 2`}, {"2026", "2025"}, {`"a"`, `"A"`}} {
		changed := bytes.Replace(data, []byte(change[0]), []byte(change[1]), 1)
		for _, trusted := range []ed25519.PublicKey{public, nil} {
			if _, err := VerifyHeads(changed, trusted); !errors.Is(err, ErrSignature) {
				t.Errorf("%s instead of %s: %v", change[1], change[0], err)
			}
		}
	}
	forged, _ := SignHeads(heads[:1], start, other) // with its own key inside
	data, _ = json.Marshal(forged)
	if _, err := VerifyHeads(data, public); !errors.Is(err, ErrSignature) {
		t.Errorf("forged: %v", err)
	}
	if _, err := VerifyHeads(data, public[:5]); !errors.Is(err, ErrSignature) {
		t.Errorf("a truncated key: %v", err)
	}
	if _, err := SignHeads(heads, start, key[:10]); err == nil {
		t.Error("signed with a truncated key")
	}
}

func TestA3HeadsWithoutSignature(t *testing.T) {
	plain, err := SignHeads(nil, start, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(plain)
	if want := `{"version":1,"timestamp":"2026-03-01T12:00:00Z","heads":[]}`; string(data) != want {
		t.Errorf("%s, want %s", data, want)
	}
	if _, err := VerifyHeads(data, nil); err != nil {
		t.Error(err)
	}
	if _, err := VerifyHeads(data, make(ed25519.PublicKey, 32)); !errors.Is(err, ErrUnsigned) {
		t.Errorf("a key asks for a signature: %v", err)
	}
	for _, bad := range []string{"", "[]", `{"version":2}`} {
		if _, err := VerifyHeads([]byte(bad), nil); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
