//go:build unix

package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// servers are the running servers of a script, by the variables that hold their addresses.
type servers map[string]*exec.Cmd

type serversKey struct{}

// setupServers lets a script start servers, which end with it.
func setupServers(e *testscript.Env) {
	running := servers{}
	e.Values[serversKey{}] = running
	e.Defer(func() {
		for _, s := range running {
			_ = s.Process.Kill() // it may have ended
			_ = s.Wait()
		}
	})
}

func serversOf(ts *testscript.TestScript, neg bool, ok bool) servers {
	if neg || !ok {
		ts.Fatalf("usage: serve NAME FLAG…, term NAME, kill9 NAME, envfile NAME FILE")
	}
	running, _ := ts.Value(serversKey{}).(servers)
	return running
}

// startTime is how long a server may take to start.
const startTime = 30 * time.Second

// startServer starts a server on a free port and sets a variable to its address: serve NAME FLAG…
func startServer(ts *testscript.TestScript, neg bool, args []string) {
	running := serversOf(ts, neg, len(args) > 0)
	program, err := exec.LookPath("tenet")
	ts.Check(err)
	cmd := exec.Command(program, append([]string{"server", "--listen", "127.0.0.1:0"}, args[1:]...)...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), append(os.Environ(), "XDG_CONFIG_HOME="+ts.Getenv("XDG_CONFIG_HOME"))
	log, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	running[args[0]] = cmd
	late := time.AfterFunc(startTime, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	said := bufio.NewReader(log)
	for before := ""; ; {
		line, err := said.ReadString('\n')
		if before += line; err != nil {
			ts.Fatalf("the server ended: %s", before)
		}
		if url, ok := strings.CutPrefix(line, "listening on "); ok {
			ts.Setenv(args[0], strings.TrimSpace(url))
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
}

// stopServer ends a server gracefully: term NAME
func stopServer(ts *testscript.TestScript, neg bool, args []string) {
	end(ts, serversOf(ts, neg, len(args) == 1), args[0], syscall.SIGTERM)
}

// killServer kills a server: kill9 NAME
func killServer(ts *testscript.TestScript, neg bool, args []string) {
	end(ts, serversOf(ts, neg, len(args) == 1), args[0], syscall.SIGKILL)
}

func end(ts *testscript.TestScript, running servers, name string, s syscall.Signal) {
	cmd := running[name]
	if cmd == nil {
		ts.Fatalf("no server %s", name)
	}
	delete(running, name)
	ts.Check(cmd.Process.Signal(s))
	_ = cmd.Wait() // says how it ended
	if code := cmd.ProcessState.ExitCode(); s == syscall.SIGTERM && code != 143 {
		ts.Fatalf("the server ended with %d", code)
	}
}

// setFromFile sets a variable to the first line of a file: envfile NAME FILE
func setFromFile(ts *testscript.TestScript, neg bool, args []string) {
	serversOf(ts, neg, len(args) == 2)
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// writeCertificate writes a new certificate for 127.0.0.1 and its private key: certificate CERT-FILE KEY-FILE
func writeCertificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: certificate CERT-FILE KEY-FILE")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	for i, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: cert}, {Type: "PRIVATE KEY", Bytes: private}} {
		ts.Check(os.WriteFile(ts.MkAbs(args[i]), pem.EncodeToMemory(block), 0o600))
	}
}
