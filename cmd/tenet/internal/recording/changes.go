package recording

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/policy"
)

// Changes records changes of a document.
type Changes struct {
	mu   sync.Mutex
	ctx  context.Context // of the program
	log  *audit.Log      // nil until Follow
	last *policy.Set
	warn *slog.Logger
}

// Follow begins to record changes of the provider's present document.
func (c *Changes) Follow(ctx context.Context, log *audit.Log, provider policy.Provider, warn *slog.Logger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := provider.(policy.SetProvider); ok {
		c.ctx, c.log, c.last, c.warn = ctx, log, p.Set(), warn
	}
}

// Record records the differences between the last document and the next. A key that the next one does not name has its defaults.
func (c *Changes) Record(next *policy.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return
	}
	for _, key := range slices.Concat(next.Keys(), slices.DeleteFunc(c.last.Keys(), next.Named)) {
		from, to := cli.PolicyOf(c.last, key), cli.PolicyOf(next, key)
		if from.Meta.Revision == to.Meta.Revision {
			continue
		}
		if err := c.log.PolicyChanged(c.ctx, audit.PolicyChange{From: from, To: to, Actor: Actor(), Detail: "the document was changed"}); err != nil {
			c.warn.Warn("a change of policy could not be recorded", "key", key.String(), "error", err)
		}
	}
	c.last = next
}
