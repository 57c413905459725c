package run

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/idempotency"
)

// recordFlags are the flags of a run that is recorded under an idempotency key.
type recordFlags struct {
	key, store string
	ttl        time.Duration
	replaySafe bool
	flags      *pflag.FlagSet
}

const defaultTTL = 24 * time.Hour

func (f *recordFlags) add(cmd *cobra.Command) {
	f.ttl = defaultTTL
	flags := cmd.Flags()
	f.flags = flags
	flags.StringVar(&f.key, "idempotency-key", "", "run the command at most once under this key; needs --idempotency-store")
	flags.StringVar(&f.store, "idempotency-store", "", "where keys are kept: "+open.UseRecords.Forms())
	flags.Var(cli.Duration(&f.ttl), "idempotency-ttl", "how long a key is kept after its command has ended")
	flags.BoolVar(&f.replaySafe, "replay-safe", false, "the command may be run again if an earlier run under the key was killed")
}

func (f *recordFlags) check() error {
	switch {
	case f.flags.Changed("idempotency-key") && f.key == "": // an unset variable of a script: without a key nothing would stop a repetition
		return cli.Usagef("--idempotency-key is empty; write a key, or leave the flag out")
	case (f.key == "") != (f.store == ""):
		return cli.Usagef("--idempotency-key and --idempotency-store go together")
	case f.key != "" && idempotency.CheckKey(f.key) != nil:
		return cli.Usagef("--idempotency-key: %w", idempotency.CheckKey(f.key))
	}
	return cli.CheckNeeds(f.flags, "idempotency-key", "idempotency-ttl", "replay-safe")
}

// FingerprintOf returns the hash of a command line: a key that comes again with another command is a conflict.
func FingerprintOf(argv []string) string {
	sum := sha256.Sum256([]byte(strings.Join(argv, "\x00")))
	return hex.EncodeToString(sum[:])
}
