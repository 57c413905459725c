package open

import (
	"bytes"
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/payload"
	"github.com/tenetdev/tenet/policy"
)

// PayloadKeysFlag adds --payload-keys to a command that reads or writes payloads.
func PayloadKeysFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("payload-keys", "", "file of the keys of encrypted payloads: lines of an ID and 32 bytes in base64; the first encrypts")
}

// Payloads are the flags of a command that stores payloads.
type Payloads struct{ policy, keys *string }

// PayloadFlags adds --policy and --payload-keys.
func PayloadFlags(cmd *cobra.Command) Payloads {
	return Payloads{cmd.Flags().String("policy", "", "policy document whose queues say which payloads are compressed and encrypted"), PayloadKeysFlag(cmd)}
}

// Client returns a client that encodes payloads as the flags say.
func (p Payloads) Client(ctx context.Context, a *cli.App, store job.Store) (*job.Client, error) {
	if *p.policy == "" && *p.keys == "" {
		return job.NewClient(store), nil
	}
	if *p.policy == "" {
		return nil, cli.Usagef("--payload-keys: give --policy too, whose queues say what is encrypted")
	}
	document, err := a.Load(ctx, *p.policy)
	if err != nil {
		return nil, err
	}
	codec, err := Codec(ctx, a, *p.keys, func() *policy.Set { return document.Set })
	if err != nil {
		return nil, err
	}
	return job.NewClient(store, job.WithCodec(codec)), nil
}

// Codec makes a codec with the keys of a file, "" for none, and what the queues of the document in force say; nil for no document.
func Codec(ctx context.Context, a *cli.App, path string, set func() *policy.Set) (*payload.Codec, error) {
	o := payload.Options{Queue: func(queue string) policy.Codec {
		if s := set(); s != nil {
			return s.Codec(queue)
		}
		return policy.Codec{}
	}}
	if path == "" {
		return payload.New(o), nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, cli.Usagef("--payload-keys: other users can read %s (mode %#o); run: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	text, err := a.ReadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	if o.Keys, err = payload.ReadKeys(bytes.NewReader(text)); err != nil {
		return nil, cli.Usagef("--payload-keys: %s: %w", path, err)
	}
	return payload.New(o), nil
}
