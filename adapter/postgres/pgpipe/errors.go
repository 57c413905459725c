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

// ErrLost is returned for a delivery that was given back, or that another consumer has claimed after its lease expired. Nothing was
// changed.
var ErrLost = errors.New("postgres: the delivery was given back, or its lease expired and another consumer claimed it")

// Classes of SQLSTATE codes, which are their first two characters.
const (
	classData       = "22" // a value is invalid for its type
	classConstraint = "23" // a constraint is violated
)

// kind is the prefix of this package's errors.
const kind address.Kind = "postgres"

// class returns the SQLSTATE class of an error that the server reported, or "".
func class(err error) string {
	reported, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(reported.Code) < 2 {
		return ""
	}
	return reported.Code[:2]
}

// markRefused marks an error as a business error if the server will never accept the transaction.
func markRefused(err error) error {
	if c := class(err); c == classData || c == classConstraint {
		return classify.Business(err)
	}
	return err
}

// transient reports whether an operation may succeed if it is repeated: the connection broke, the server is restarting or
// full, or the statement was the victim of a deadlock.
func transient(err error) bool {
	switch class(err) {
	case "", "08", "40", "53", "57", "58":
		return true
	}
	return false
}

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// retryTransient repeats an operation until it succeeds, fails with an error that is not transient, or ctx ends. The operation
// must be safe to repeat.
func retryTransient(ctx context.Context, op func() error) error {
	for backoff := (wait.Backoff{Min: minBackoff, Max: maxBackoff}); ; {
		err := op()
		if err == nil || !transient(err) || ctx.Err() != nil {
			return err
		}
		if backoff.Wait(ctx) != nil {
			return err
		}
	}
}
