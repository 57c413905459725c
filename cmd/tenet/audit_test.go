//go:build unix

package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
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

func TestTailFollowsUntilItIsStopped(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	succeed(t, "run", "--key", "first.Key", "--audit", "file:"+log, "--", "true")
	ctx, cancel := context.WithCancelCause(t.Context())
	read, write := io.Pipe()
	ended := make(chan int)
	go func() {
		p := cli.Program{
			Args:  []string{"audit", "tail", log, "-n", "1", "--type", "call_succeeded"},
			Stdin: strings.NewReader(""), Stdout: write, Stderr: io.Discard, AddCommands: addCommands,
		}
		code := p.Run(ctx)
		_ = write.Close()
		ended <- code
	}()
	lines := bufio.NewScanner(read)
	if !lines.Scan() || !strings.Contains(lines.Text(), "first.Key") {
		t.Fatalf("the last event is %q", lines.Text())
	}
	succeed(t, "run", "--key", "second.Key", "--audit", "file:"+log, "--", "true")
	if !lines.Scan() || !strings.Contains(lines.Text(), "second.Key") {
		t.Fatalf("the next event is %q", lines.Text())
	}
	cancel(command.Interrupt{Signal: syscall.SIGINT})
	if code := <-ended; code != 130 || lines.Scan() {
		t.Errorf("code %d, then %q", code, lines.Text())
	}
}

// tailed is a running tenet audit tail of the calls that succeed.
type tailed struct {
	*testing.T
	lines, warnings *bufio.Scanner
	stop            func()
}

func tailOf(t *testing.T, log string) *tailed {
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	ctx, interrupt := context.WithCancelCause(within)
	out, printed := io.Pipe()
	errs, warned := io.Pipe()
	ended := make(chan int)
	go func() {
		p := cli.Program{
			Args:  []string{"audit", "tail", log, "-n", "1", "--type", "call_succeeded"},
			Stdin: strings.NewReader(""), Stdout: printed, Stderr: warned, AddCommands: addCommands,
		}
		code := p.Run(ctx)
		_ = errors.Join(printed.Close(), warned.Close())
		ended <- code
	}()
	f := &tailed{T: t, lines: bufio.NewScanner(out), warnings: bufio.NewScanner(errs)}
	f.stop = func() {
		interrupt(command.Interrupt{Signal: syscall.SIGINT})
		if code := <-ended; code != 130 || f.lines.Scan() {
			t.Errorf("code %d, then %q", code, f.lines.Text())
		}
	}
	return f
}

func (f *tailed) next(from *bufio.Scanner, want string) {
	f.Helper()
	if !from.Scan() || !strings.Contains(from.Text(), want) {
		f.Fatalf("%q, want %s", from.Text(), want)
	}
}

// TestTailGoesOnAfterTheLogWasRestored from a backup, and does not end while there is no log.
func TestTailGoesOnAfterTheLogWasRestored(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	run := func(key string) { succeed(t, "run", "--key", key, "--audit", "file:"+log, "--", "true") }
	run("first.Key")
	backup := read(t, log)
	run("second.Key")
	f := tailOf(t, log)
	f.next(f.lines, "second.Key")
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	f.next(f.warnings, "no such file")
	writeFile(t, log, backup)
	f.next(f.warnings, "can be read again")
	f.next(f.warnings, "was replaced")
	run("third.Key")
	f.next(f.lines, "third.Key")
	f.stop()
}

// TestTailGoesOnAfterAStreamWasReplaced by a shorter one.
func TestTailGoesOnAfterAStreamWasReplaced(t *testing.T) {
	url := natstest.Start(t).ClientURL()
	run := func(key string) { succeed(t, "run", "--key", key, "--audit", url, "--", "true") }
	run("first.Key")
	run("second.Key")
	f := tailOf(t, url)
	f.next(f.lines, "second.Key")
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), natsstore.AuditStream); err != nil {
		t.Fatal(err)
	}
	run("third.Key")
	for f.warnings.Scan() && !strings.Contains(f.warnings.Text(), "was replaced") { // after those of a log that cannot be read
	}
	f.next(f.lines, "third.Key")
	f.stop()
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
