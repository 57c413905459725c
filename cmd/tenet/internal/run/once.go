package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// recordFlags are the flags of a run whose effect happens once.
type recordFlags struct {
	key, store string
	ttl        time.Duration
	replaySafe bool
}

const defaultTTL = 24 * time.Hour

func (f *recordFlags) add(cmd *cobra.Command) {
	f.ttl = defaultTTL
	flags := cmd.Flags()
	flags.StringVar(&f.key, "idempotency-key", "", "run the command at most once under this key; needs --idempotency-store")
	flags.StringVar(&f.store, "idempotency-store", "", "where keys are kept: "+open.UseRecords.Forms())
	flags.Var(cli.Duration(&f.ttl), "idempotency-ttl", "how long a key is kept after its command has ended")
	flags.BoolVar(&f.replaySafe, "replay-safe", false, "the command may be run again if an earlier run under the key was killed")
}

func (f *recordFlags) check() error {
	switch {
	case (f.key == "") != (f.store == ""):
		return cli.Usagef("--idempotency-key and --idempotency-store go together")
	case f.key != "" && idempotency.CheckKey(f.key) != nil:
		return cli.Usagef("--idempotency-key: %w", idempotency.CheckKey(f.key))
	case f.ttl <= 0:
		return cli.Usagef("--idempotency-ttl: %s is not above 0", f.ttl)
	}
	return nil
}

// guard opens the guard of a run.
func (f *recordFlags) guard(ctx context.Context, a *cli.App, p *policy.Policy, o retry.ExecutorOptions) (*idempotency.Guard, func() error, error) {
	return open.Guard(ctx, a, f.store, idempotency.GuardOptions{
		TTL: f.ttl, ReplaySafe: f.replaySafe, Policies: []policy.Policy{*p}, Observer: o.Observer, Journal: o.Journal,
	})
}

// FingerprintOf is what a command is recognised by.
func FingerprintOf(argv []string) string {
	sum := sha256.Sum256([]byte(strings.Join(argv, "\x00")))
	return hex.EncodeToString(sum[:])
}
