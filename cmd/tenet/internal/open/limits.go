package open

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/adapter/redis"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// LimitsFlag adds --limits to a command.
func LimitsFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("limits", "", "store of the limits that processes share: "+UseLimits.Forms())
}

// giveBackTime is how long a command waits at its end until its shares of limits are given back.
const giveBackTime = 2 * time.Second

// LimitsOptions are the arguments of Limits.
type LimitsOptions struct {
	URL  string // of the store; "" is none
	Set  *policy.Set
	Uses func(policy.Key) bool // reports whether this process has work of a key
}

// Limits opens the store of --limits, which creates a missing SQLite file, and connects this process with it. A server that does not
// answer is tried again in the background. Without a URL the hub is nil, and it is an error if one of the policies shares something.
func Limits(ctx context.Context, a *cli.App, o LimitsOptions) (hub *sharing.Hub, closeHub func() error, err error) {
	none := func() error { return nil }
	if o.URL == "" {
		return nil, none, checkUnshared(o.Set, o.Uses)
	}
	at, _, err := Ref{Flag: "limits", URL: o.URL, Use: UseLimits}.locate()
	if err != nil {
		return nil, nil, err
	}
	store := &lateLimits{open: func(ctx context.Context) (*limitStore, error) { return openLimits(ctx, a, at) }}
	if _, err := store.opened(ctx); err != nil {
		if _, failed := errors.AsType[*cli.Failure](err); failed || at.scheme != schemePostgres {
			return nil, nil, err
		}
		a.Warn("the store of --limits does not answer, so this process has its own share of the limits until it does: %v", err)
	}
	hub = sharing.NewHub(store)
	return hub, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackTime)
		defer cancel()
		if err := hub.Close(ctx); err != nil {
			a.Warn("%v", err)
		}
		return store.close()
	}, nil
}

// checkUnshared returns an error if a policy shares something.
func checkUnshared(set *policy.Set, uses func(policy.Key) bool) error {
	if set == nil {
		return nil
	}
	for _, key := range set.Keys() {
		if parts := set.Shared(cli.PolicyOf(set, key)); uses(key) && len(parts) > 0 {
			return cli.Usagef("%s shares its %s with other processes; name their store with --limits %s, or remove scope: shared from the document",
				key, strings.Join(parts, " and its "), UseLimits.Forms())
		}
	}
	return nil
}

type limitStore struct {
	sharing.Store
	io.Closer
}

func openLimits(ctx context.Context, a *cli.App, at location) (*limitStore, error) {
	if at.scheme == schemeRedis {
		redis.DisableLog() // its lines would mix with the command's log
		db, err := redis.Open(at.URL, redis.Options{})
		if err != nil {
			return nil, err
		}
		return &limitStore{db.Limits(), db}, nil
	}
	all, err := openAll(ctx, a, at, Options{Create: true})
	if err != nil {
		return nil, err
	}
	return &limitStore{all.limits, all}, nil
}

// lateLimits is a store that is opened when it first answers.
type lateLimits struct {
	open func(ctx context.Context) (*limitStore, error)

	mu    sync.Mutex  // guards store
	store *limitStore // nil until opened
}

func (s *lateLimits) opened(ctx context.Context) (sharing.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		store, err := s.open(ctx)
		if err != nil {
			return nil, err
		}
		s.store = store
	}
	return s.store, nil
}

// Load opens the store if it is not open.
func (s *lateLimits) Load(ctx context.Context, names []string) (sharing.Snapshot, error) {
	store, err := s.opened(ctx)
	if err != nil {
		return sharing.Snapshot{}, err
	}
	return store.Load(ctx, names)
}

// Swap opens the store if it is not open.
func (s *lateLimits) Swap(ctx context.Context, states []sharing.State) ([]bool, error) {
	store, err := s.opened(ctx)
	if err != nil {
		return nil, err
	}
	return store.Swap(ctx, states)
}

func (s *lateLimits) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		return nil
	}
	return s.store.Close()
}
