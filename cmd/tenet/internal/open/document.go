package open

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/server/client"
)

// DocumentRef names a document that is read once: a file, server:URL/NAME@REV for a revision of a server's document, without @REV
// for the one in force, or NAME@REV where the command has a server.
type DocumentRef struct {
	Name   string
	Token  string                           // for the server
	Limits map[policy.Surface]policy.Limits // instead of the built-in ones
}

// ShadowFlag adds --shadow to a command that runs work under policies.
func ShadowFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("shadow", "", "document under trial, evaluated beside the one in force without effect: a file, or server:URL/NAME@REV")
}

// Shadow returns the policies under trial: those of a document, which is read once, or without one those that the server of the
// provider in force has under trial; nil for another provider.
func Shadow(ctx context.Context, a *cli.App, r DocumentRef, inForce policy.Provider) (policy.Provider, error) {
	if server, ok := inForce.(*controlplane.Server); ok && r.Name == "" {
		return server.Trial(), nil
	}
	if r.Name == "" {
		return nil, nil
	}
	document, err := Document(ctx, a, r)
	if err != nil {
		return nil, err
	}
	return document.Set, nil
}

// Document reads a document.
func Document(ctx context.Context, a *cli.App, r DocumentRef) (*policyfile.Document, error) {
	address, ofServer := strings.CutPrefix(r.Name, cli.ServerScheme)
	name, revision, numbered := cutRevision(address)
	var d *client.Documents
	switch server, err := Target(ctx); {
	case err != nil:
		return nil, err
	case ofServer:
		slash := strings.LastIndexByte(name, '/')
		if slash < 0 {
			return nil, cli.Usagef("%s: write server:URL/NAME@REV, for example server:https://tenet.example.com/shop@7", r.Name)
		}
		c, err := client.New(client.Options{URL: name[:slash], Token: r.Token})
		if err != nil {
			return nil, cli.Usagef("%s: %w", r.Name, err)
		}
		d, name = c.Documents(), name[slash+1:]
	case server != nil && numbered && cli.Missing(r.Name):
		d = server.Documents()
	default:
		return a.LoadWithin(ctx, r.Name, r.Limits)
	}
	text, err := revisionText(ctx, d, name, revision)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	document, err := policyfile.Parse(r.Name, []byte(text), policyfile.Options{Limits: r.Limits})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return document, nil
}

// cutRevision splits NAME@REV.
func cutRevision(name string) (document string, revision int64, ok bool) {
	at := strings.LastIndexByte(name, '@')
	if at < 0 {
		return name, 0, false
	}
	revision, err := strconv.ParseInt(name[at+1:], 10, 64)
	if err != nil || revision < 1 {
		return name, 0, false
	}
	return name[:at], revision, true
}

// revisionText returns the text of a revision, 0 for the one in force.
func revisionText(ctx context.Context, d *client.Documents, name string, number int64) (string, error) {
	if number == 0 {
		current, err := d.Get(ctx, name)
		if err != nil {
			return "", err
		}
		number = current.Current
	}
	r, err := d.Revision(ctx, name, number)
	return r.Body, err
}
