//go:build unix

package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/internal/testpg"
)

// succeed runs a command that must succeed, and returns what it printed.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := runIn(t.Context(), nil, "", args...)
	if code != 0 {
		t.Fatalf("tenet %s: code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

func writePEM(t *testing.T, path, kind string, der []byte, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func TestA3SignedHeadsAreChecked(t *testing.T) {
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	log, private, public, other, signed, plain := at("audit.jsonl"), at("key.pem"), at("public.pem"), at("other.pem"), at("signed.json"), at("plain.json")
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	writePEM(t, private, "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(key.Public())
	writePEM(t, public, "PUBLIC KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", ed25519.SeedSize))).Public())
	writePEM(t, other, "PUBLIC KEY", der, err)
	succeed(t, "run", "--audit", "file:"+log, "--", "true")
	for file, args := range map[string][]string{signed: {"--sign", private}, plain: nil} {
		writeFile(t, file, succeed(t, append([]string{"audit", "head", log}, args...)...))
	}
	if out := succeed(t, "audit", "verify", log, "--head", signed, "--trust", public); !strings.Contains(out, "tail verified") {
		t.Error(out)
	}
	text := read(t, signed)
	forged := at("forged.json")
	writeFile(t, forged, strings.Replace(text, `"seq": 3`, `"seq": 2`, 1))
	for name, c := range map[string]struct{ head, trust, want string }{
		"unsigned":       {plain, public, "not signed"},
		"another key":    {signed, other, "does not match the key"},
		"changed":        {forged, public, "does not match the key"},
		"a private key":  {signed, private, "--sign takes the private key, --trust the public one"},
		"no key at all":  {signed, log, "not a PEM file"},
		"no heads":       {public, public, "not a file that tenet audit head has written"},
		"a log":          {log, public, ""},
		"missing public": {signed, at("none.pem"), ""},
	} {
		if code, _, errs := runIn(t.Context(), nil, "", "audit", "verify", log, "--head", c.head, "--trust", c.trust); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d, %s", name, code, errs)
		}
	}
	if code, _, errs := runIn(t.Context(), nil, "", "audit", "head", log, "--sign", public); code != 1 || !strings.Contains(errs, "--sign takes the private key") {
		t.Errorf("signed with a public key: code %d, %s", code, errs)
	}
}

func TestAuditOnPostgreSQL(t *testing.T) {
	server, err := testpg.Start(testpg.NoSync)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	url := server.URL()
	if code, _, _ := runIn(t.Context(), nil, "", "audit", "verify", url); code != 5 {
		t.Errorf("without tables: code %d", code)
	}
	succeed(t, "migrate", "up", "--store", url)
	if code, _, errs := runIn(t.Context(), nil, "", "run", "--max-attempts", "2", "--backoff", "1ms", "--audit", url, "--", "false"); code != 1 {
		t.Fatalf("code %d: %s", code, errs)
	}
	heads := filepath.Join(t.TempDir(), "heads.json")
	writeFile(t, heads, succeed(t, "audit", "head", url))
	for args, want := range map[string]string{
		"verify " + url + " --head " + heads:            "tail verified",
		"replay " + url:                                 "replayed as recorded: 1 of 1",
		"stats " + url:                                  "total",
		"query " + url + " --type retry_exhausted":      "attempts_exhausted",
		"tail " + url + " -n 1 --follow=false -o jsonl": `"event_type":"retry_exhausted"`,
	} {
		if out := succeed(t, append([]string{"audit"}, strings.Fields(args)...)...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", args, out)
		}
	}
}
