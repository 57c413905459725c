package pgpipe

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/internal/wait"
)

// ErrLost is returned for a delivery that belongs to somebody else by now: its lease ran out. Nothing was changed.
var ErrLost = errors.New("postgres: the delivery was lost to a later one, its lease had run out")

// The classes of SQLSTATE codes that have a meaning here: the first two characters.
const (
	classData       = "22" // a value that the type does not take
	classConstraint = "23"
)

// kind begins the errors of this package.
const kind address.Kind = "postgres"

// class is the class of an error that the server reported, or empty.
func class(err error) string {
	reported, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(reported.Code) < 2 {
		return ""
	}
	return reported.Code[:2]
}

// refused marks what the server will never take as the transaction's own fault.
func refused(err error) error {
	if c := class(err); c == classData || c == classConstraint {
		return classify.Business(err)
	}
	return err
}

// passing reports whether an error may be gone a moment later: the connection broke, the server restarts or is full, or
// the statement was chosen as the victim of a deadlock.
func passing(err error) bool {
	switch class(err) {
	case "", "08", "40", "53", "57", "58":
		return true
	}
	return false
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// persist repeats an operation that is safe to repeat until it succeeds, can never, or ctx ends.
func persist(ctx context.Context, op func() error) error {
	for backoff := (wait.Backoff{Min: firstPause, Max: longestPause}); ; {
		err := op()
		if err == nil || !passing(err) || ctx.Err() != nil {
			return err
		}
		if backoff.Wait(ctx) != nil {
			return err
		}
	}
}
