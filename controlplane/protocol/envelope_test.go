package protocol_test

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/controlplane/protocol"
)

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(seed), ed25519.SeedSize)))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func signed(by ed25519.PrivateKey) protocol.Envelope {
	e := protocol.Envelope{
		Document: "shop", Revision: 7, Hash: "abc", Body: "version: 1\n# <&>\n", Published: time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC),
	}
	e.Sign(by)
	return e
}

func TestS4AnEnvelopeSurvivesTheWire(t *testing.T) {
	e := signed(key('a'))
	data, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(string(data), "\r\n") {
		t.Errorf("a line break inside %s", data)
	}
	read, err := protocol.ReadEnvelope(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, *read); diff != "" {
		t.Error(diff)
	}
	if err := read.Verify(public(key('a'))); err != nil {
		t.Error(err)
	}
}

func TestS4EveryChangeBreaksTheSignature(t *testing.T) {
	changes := map[string]func(*protocol.Envelope){
		"document":  func(e *protocol.Envelope) { e.Document = "shops" },
		"revision":  func(e *protocol.Envelope) { e.Revision++ },
		"hash":      func(e *protocol.Envelope) { e.Hash = "abd" },
		"published": func(e *protocol.Envelope) { e.Published = e.Published.Add(time.Microsecond) },
		"body":      func(e *protocol.Envelope) { e.Body += " " },
		"boundary":  func(e *protocol.Envelope) { e.Document, e.Hash = e.Document+e.Hash, "" },
		"key":       func(e *protocol.Envelope) { e.Key = public(key('b')) },
		"no key":    func(e *protocol.Envelope) { e.Key = nil },
		"signature": func(e *protocol.Envelope) { e.Signature[3] ^= 1 },
	}
	for name, change := range changes {
		e := signed(key('a'))
		change(&e)
		if err := e.Verify(); !errors.Is(err, protocol.ErrTampered) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestS4OnlyTrustedAndEndorsedKeysCount(t *testing.T) {
	a, b, c := key('a'), key('b'), key('c')
	forged := protocol.Endorse(b, public(c))
	forged.By = public(a)
	for _, test := range []struct {
		name         string
		by           ed25519.PrivateKey
		trusted      []ed25519.PublicKey
		endorsements []protocol.Endorsement
		want         error
	}{
		{"pinned", a, []ed25519.PublicKey{public(a)}, nil, nil},
		{"nothing pinned yet", a, nil, nil, nil},
		{"another key", b, []ed25519.PublicKey{public(a)}, nil, protocol.ErrUntrusted},
		{"endorsed", b, []ed25519.PublicKey{public(a)}, []protocol.Endorsement{protocol.Endorse(a, public(b))}, nil},
		{"endorsed twice, in any order", c, []ed25519.PublicKey{public(a)}, []protocol.Endorsement{protocol.Endorse(b, public(c)), protocol.Endorse(a, public(b))}, nil},
		{"endorsed by itself", b, []ed25519.PublicKey{public(a)}, []protocol.Endorsement{protocol.Endorse(b, public(b))}, protocol.ErrUntrusted},
		{"forged endorsement", c, []ed25519.PublicKey{public(a)}, []protocol.Endorsement{forged}, protocol.ErrUntrusted},
	} {
		e := signed(test.by)
		e.Endorsements = test.endorsements
		err := e.Verify(test.trusted...)
		if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), "GET /v1/signing-key shows, configure it") {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestS9RevisionsOfARestoredStoreAreRefusedWithARemedy.
func TestS9RevisionsOfARestoredStoreAreRefusedWithARemedy(t *testing.T) {
	trust := protocol.NewTrust("shop")
	newest := signed(key('a'))
	if err := trust.Accept(&newest); err != nil {
		t.Fatal(err)
	}
	older, other := newest, newest
	older.Revision--
	other.Body += " "
	for e, want := range map[*protocol.Envelope]error{&older: protocol.ErrOlder, &other: protocol.ErrTwice} {
		e.Sign(key('a'))
		if err := trust.Accept(e); !errors.Is(err, want) || !strings.Contains(err.Error(), "publish the document until its revision is above 7") {
			t.Error(err)
		}
	}
}

func TestS4EnvelopesAreReadStrictly(t *testing.T) {
	e := signed(key('a'))
	good, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"unknown field": strings.Replace(string(good), `{"document"`, `{"extra":1,"document"`, 1),
		"trailing data": string(good) + "{}",
		"bad name":      strings.Replace(string(good), `"shop"`, `"../shop"`, 1),
		"revision 0":    strings.Replace(string(good), `"revision":7`, `"revision":0`, 1),
		"not UTF-8":     strings.Replace(string(good), "abc", "ab\xff", 1),
		"empty":         "",
		"too large":     strings.Repeat(" ", protocol.MaxEnvelope+1),
	} {
		if _, err := protocol.ReadEnvelope([]byte(data)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestKeysAsText(t *testing.T) {
	k, err := protocol.ParseKey(protocol.FormatKey(public(key('a'))))
	if err != nil || !k.Equal(public(key('a'))) {
		t.Error(k, err)
	}
	if _, err := protocol.ParseKey("YWJj"); err == nil {
		t.Error("a short key was accepted")
	}
}

func TestS4ADocumentsNameHasAtMost100Characters(t *testing.T) {
	if err := protocol.CheckName(strings.Repeat("n", 100)); err != nil {
		t.Error(err)
	}
	if protocol.CheckName(strings.Repeat("n", 101)) == nil {
		t.Error("101 characters: accepted")
	}
}
