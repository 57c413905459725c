package natspolicy

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/netguard"
)

// Source is a document of a Tenet server.
type Source struct {
	// URL of the server: https://host[:port][/path]. Document is the document's name.
	URL, Document string
	// Token with the scope report. It never appears in errors.
	Token string
	// Keys of the server. Without keys, envelopes are copied without a check of who signed them: readers check them.
	Keys []ed25519.PublicKey
	// Client for requests. Default a new http.Client on http.DefaultTransport, but an HTTP/2 connection that is dead is given up within
	// 30 s.
	Client *http.Client
}

// Copy reads the revision of a document that is in force for everyone from a Tenet server and puts it into a bucket. Call it
// at intervals; a revision that is there already is not written again.
func Copy(ctx context.Context, bucket jetstream.KeyValue, from Source) error {
	if err := protocol.CheckName(from.Document); err != nil {
		return wrap(err)
	}
	if u, err := url.Parse(from.URL); err != nil || u.Host == "" { // the parser's error may show a password
		return errors.New("natspolicy: URL: not an address; write https://host[:port][/path]")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(from.URL, "/")+protocol.LivePath(from.Document), http.NoBody)
	if err != nil {
		return wrap(err)
	}
	if from.Token != "" {
		request.Header.Set("Authorization", "Bearer "+from.Token)
	}
	client := cmp.Or(from.Client, &http.Client{Transport: netguard.Checked()})
	answer, err := client.Do(request)
	if err != nil {
		return wrap(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("natspolicy: document %s: status %s", from.Document, answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, protocol.MaxEnvelope+1))
	if err != nil {
		return wrap(err)
	}
	e, err := protocol.ReadEnvelope(data)
	if err == nil {
		err = protocol.NewTrust(from.Document, from.Keys...).Accept(e)
	}
	if err != nil {
		return wrap(err)
	}
	return Put(ctx, bucket, e)
}
