package controlplane

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policy"
)

func TestRemoteSecretsStayOutOfErrorsAndLogs(t *testing.T) {
	const token, key = "s3cr3t-t0ken-value", "another-s3cr3t-value"
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		var log bytes.Buffer
		var told faults
		o := RemoteOptions{
			Token: token, Headers: http.Header{"X-Api-Key": {key}}, MaxBackoff: time.Second,
			OnError: told.add, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}
		r := newRemote(t, p, o)
		p.serve(getUserPath, policyOf(4))
		ask(t, r, getUser, 4, policy.SourceRemote, nil)
		if p.header.Get("Authorization") != "Bearer "+token || p.header.Get("X-Api-Key") != key {
			t.Fatalf("the headers were not sent: %v", p.header)
		}
		texts := []string{fmt.Sprintf("%v %+v %#v", o, o, &o), fmt.Sprintf("%v %+v %#v", r, r, r), fmt.Sprintf("%+v", *r.getter.client)}
		for _, change := range []func(*plane){
			func(p *plane) { p.fault = fmt.Errorf("proxy refused Bearer %s and %s", token, key) },
			func(p *plane) { p.fault, p.status = nil, 401 },
			func(p *plane) { p.status, p.bodies[getUserPath] = 0, fmt.Sprintf(`{%q:1}`, token) },
		} {
			p.set(change)
			time.Sleep(defaultTTL)
			_, _ = r.Policy(t.Context(), getUser)
			synctest.Wait()
			_, err := r.Policy(t.Context(), getUser)
			if err == nil {
				t.Fatal("no error")
			}
			texts = append(texts, fmt.Sprintf("%v %+v", err, err))
		}
		if told.count() != 3 {
			t.Fatalf("told %d times: %s", told.count(), &told)
		}
		for _, text := range append(texts, told.String(), log.String()) {
			if strings.Contains(text, token) || strings.Contains(text, key) {
				t.Errorf("a secret in: %s", text)
			}
		}
	})
}

func TestRemoteRefusesOptionsWithoutShowingThem(t *testing.T) {
	for name, o := range map[string]RemoteOptions{
		"no URL":         {},
		"no host":        {URL: "https:///x"},
		"other scheme":   {URL: "ftp://plane.example"},
		"credentials":    {URL: "https://user:hunter22@plane.example"},
		"bad with creds": {URL: "https://user:hunter22@plane.example:port"},
		"query":          {URL: "https://plane.example?token=hunter22"},
		"line break":     {URL: "https://plane.example", Token: "hunter22\n"},
	} {
		_, perKey := NewRemote(o)
		_, document := NewRemoteDocument(o)
		if perKey == nil || document == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if strings.Contains(perKey.Error()+document.Error()+o.String(), "hunter22") {
			t.Errorf("%s: a secret in %v or %v", name, perKey, o)
		}
	}
}

func TestRemoteOverSockets(t *testing.T) {
	p := newPlane()
	p.serve("/policies/user-service/GetUser", policyOf(4))
	p.serve("/policies", documentOf(5))
	server := httptest.NewServer(p)
	defer server.Close()
	other := httptest.NewServer(http.RedirectHandler(server.URL+"/policies/user-service/GetUser", http.StatusFound))
	defer other.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()

	remote, err := NewRemote(RemoteOptions{URL: server.URL, Client: client, Logger: silent()})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	ask(t, remote, getUser, 4, policy.SourceRemote, nil)
	ask(t, remote, putUser, 0, "", policy.ErrPolicyNotFound)

	document, err := NewRemoteDocument(RemoteOptions{URL: server.URL, Client: client, Logger: silent()})
	if err != nil {
		t.Fatal(err)
	}
	defer document.Close()
	ask(t, document, getUser, 5, policy.SourceRemote, nil)

	redirected, err := NewRemote(RemoteOptions{URL: other.URL, Client: client, Token: "t0ken-for-one-host", Logger: silent()})
	if err != nil {
		t.Fatal(err)
	}
	defer redirected.Close()
	_, err = redirected.Policy(t.Context(), getUser)
	if !errors.Is(err, policy.ErrPolicyFetchFailed) {
		t.Fatalf("a redirect was followed: %v", err)
	}
	contains(t, err.Error(), "302", "redirects are not followed", other.URL+"/policies/user-service/GetUser")
}

// lateBody arrives as the time for the request runs out.
type lateBody struct {
	io.Reader
	ended <-chan struct{}
}

func (b lateBody) Read(p []byte) (int, error) {
	<-b.ended
	return b.Reader.Read(p)
}

func (lateBody) Close() error { return nil }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestS4AnAnswerThatComesAsItsTimeEndsIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := protocol.Envelope{Document: "shop", Revision: 1, Body: "version: 1\n"}
		e.Sign(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
		encoded, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: lateBody{bytes.NewReader(encoded), r.Context().Done()}}, nil
		})}
		getter, err := newGetter(RemoteOptions{URL: "http://server", Client: client})
		if err != nil {
			t.Fatal(err)
		}
		f := newFollower(ServerOptions{Document: "shop"}, getter, newReports(nil, nil))
		if _, err := f.get(t.Context(), 0); err != nil || f.trust.Newest() == nil {
			t.Errorf("%v", err)
		}
	})
}
