package cli

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policy"
)

// Document says which policy document a command follows.
type Document struct {
	// Path of a file, "-" for stdin, or server:URL/NAME. Empty for none.
	Path string
	// The rest is for a document of a server.
	Token  string
	Cache  string
	Key    string
	Labels map[string]string
	Limits map[policy.Surface]policy.Limits // instead of the built-in ones
}

// ServerScheme begins the address of a document of a server.
const ServerScheme = "server:"

// IsServer reports whether the document is one of a server.
func (d *Document) IsServer() bool { return strings.HasPrefix(d.Path, ServerScheme) }

// Flags adds --policy and what a document of a server needs to a command.
func (d *Document) Flags(cmd *cobra.Command, usage string) {
	flags := cmd.Flags()
	flags.StringVar(&d.Path, "policy", "", usage+"; - is stdin, server:URL/NAME a document of a server")
	flags.StringVar(&d.Token, "token", "", "token for the server of --policy; better in TENET_TOKEN, which other users of the machine cannot see")
	flags.StringVar(&d.Cache, "policy-cache", "", "file that keeps the server's document for the next start; each process needs its own")
	flags.StringVar(&d.Key, "policy-key", "", "public key of the server (default: trust the first key, and keep it in --policy-cache)")
	flags.StringToStringVar(&d.Labels, "policy-label", nil, "NAME=VALUE, by which the server can choose this process for a rollout")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range []string{"token", "policy-cache", "policy-key", "policy-label"} {
			if Given(cmd, name) && !d.IsServer() { // the environment may hold settings for other documents
				return Usagef("--%[1]s is for a document of a server: write --policy server:URL/NAME, or leave --%[1]s out", name)
			}
		}
		return nil
	}
}

// documentPoll is short enough for a change of the document to take effect within a second.
const documentPoll = 500 * time.Millisecond

// FollowDocument returns a provider that follows a document, and the present document. Without a document both are nil. The
// provider calls changed with every new document. A provider of a server's document has an Observer, and must be closed.
func (a *App) FollowDocument(ctx context.Context, d Document, log *slog.Logger, changed func(*policy.Set)) (policy.Provider, *policy.Set, error) {
	if d.Path == "" {
		return nil, nil, nil
	}
	if d.IsServer() {
		return a.followServer(ctx, d, log, changed)
	}
	document, err := a.Load(ctx, d.Path)
	if err != nil {
		return nil, nil, err
	}
	if d.Path == StandardInput {
		return document.Set, document.Set, nil
	}
	file, err := controlplane.NewFile(d.Path, controlplane.FileOptions{Interval: documentPoll, OnChange: changed, Logger: log})
	return file, document.Set, err
}

// firstDocumentTimeout is how long a command waits for the first document of a server. After 10 s, a provider whose stream a proxy holds
// back falls back to a GET.
const firstDocumentTimeout = 20 * time.Second

func (a *App) followServer(ctx context.Context, d Document, log *slog.Logger, changed func(*policy.Set)) (policy.Provider, *policy.Set, error) {
	address := strings.TrimPrefix(d.Path, ServerScheme)
	slash := strings.LastIndexByte(address, '/')
	if slash < 0 {
		return nil, nil, Usagef("--policy: %s: write server:URL/NAME, for example server:https://tenet.example.com/shop", d.Path)
	}
	o := controlplane.ServerOptions{
		URL: address[:slash], Document: address[slash+1:], Token: d.Token, CachePath: d.Cache, Labels: d.Labels, Limits: d.Limits, Logger: log,
	}
	if d.Key != "" {
		key, err := protocol.ParseKey(d.Key)
		if err != nil {
			return nil, nil, Usagef("--policy-key: %w", err)
		}
		o.Keys = []ed25519.PublicKey{key}
	}
	var mu sync.Mutex // guards first
	var first *policy.Set
	o.OnChange = func(next *policy.Set) {
		mu.Lock()
		started := first != nil && first != next
		mu.Unlock()
		if started && changed != nil {
			changed(next)
		}
	}
	server, err := controlplane.NewServer(o)
	if err != nil {
		return nil, nil, Usagef("--policy: %w", err)
	}
	for deadline := time.Now().Add(firstDocumentTimeout); server.Set() == nil && ctx.Err() == nil && time.Now().Before(deadline); {
		if err := server.Status().LastError; err != nil && !errors.Is(err, policy.ErrProviderUnavailable) {
			break
		}
		_ = wait.For(ctx, 10*time.Millisecond)
	}
	mu.Lock()
	first = server.Set()
	mu.Unlock()
	if first == nil {
		err := server.Status().LastError
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, nil, errors.Join(fmt.Errorf("no document from the server: %w", err), server.Close())
	}
	return server, first, nil
}
