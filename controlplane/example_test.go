package controlplane_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// A document on disk governs calls, and changes while they run.
func ExampleNewFile() {
	dir, _ := os.MkdirTemp("", "tenet")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "policies.yaml")
	write := func(attempts int) {
		_ = os.WriteFile(path, fmt.Appendf(nil, "version: 1\npolicies: {mail.Send: {retry: {max_attempts: %d, backoff: 1ms}}}\n", attempts), 0o600)
	}
	write(2)
	file, err := controlplane.NewFile(path, controlplane.FileOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()

	executor := retry.NewExecutor(retry.ExecutorOptions{Provider: file})
	send := func() {
		fmt.Println(executor.Do(context.Background(), policy.ParseKey("mail.Send"), func(context.Context) error {
			return fmt.Errorf("mailbox full")
		}))
	}
	send()
	write(4)
	_ = file.Reload(context.Background()) // or wait for a second
	send()
	// Output:
	// tenet: mail.Send: attempts_exhausted after 2 attempts: mailbox full
	// tenet: mail.Send: attempts_exhausted after 4 attempts: mailbox full
}

// A control plane answers for one key at a time.
func ExampleNewRemote() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/policies/mail/Send" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"id": "rev-17", "retry": {"max_attempts": 4}}`)
	}))
	defer server.Close()
	remote, err := controlplane.NewRemote(controlplane.RemoteOptions{URL: server.URL, Token: os.Getenv("PLANE_TOKEN"), Client: server.Client()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer remote.Close()

	p, err := remote.Policy(context.Background(), policy.ParseKey("mail.Send"))
	fmt.Println(p.ID, p.Retry.MaxAttempts, p.Meta.Source, err)
	p, err = remote.Policy(context.Background(), policy.ParseKey("mail.Read"))
	fmt.Println(p == nil, err != nil)
	// Output:
	// rev-17 4 remote <nil>
	// true true
}

// A program follows a document of a Tenet server, and reports what its calls do.
func ExampleNewServer() {
	s := newServer()
	s.send(envelope(1, 4, signingKey('a')))
	listener := httptest.NewServer(s)
	defer listener.Close()

	server, err := controlplane.NewServer(controlplane.ServerOptions{URL: listener.URL, Document: "shop", Token: "secret", ClientID: "web-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	executor := retry.NewExecutor(retry.ExecutorOptions{Provider: server, Observer: server.Observer()})
	err = executor.Do(context.Background(), policy.ParseKey("users.Get"), func(context.Context) error {
		return fmt.Errorf("no route to host")
	})
	fmt.Println(err)
	fmt.Println(server.Status().Number)
	// Output:
	// tenet: users.Get: attempts_exhausted after 4 attempts: no route to host
	// 1
}

// Policies can be given in code.
func ExampleNewStatic() {
	static, err := controlplane.NewStatic(map[policy.Key]policy.Policy{
		policy.ParseKey("mail.Send"): {Retry: policy.Retry{MaxAttempts: 5}},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{"mail.Send", "mail.Read"} {
		p, _ := static.Policy(context.Background(), policy.ParseKey(key))
		fmt.Println(p.Key, p.Retry.MaxAttempts, p.Meta.Source)
	}
	// Output:
	// mail.Send 5 static
	// mail.Read 3 default
}
