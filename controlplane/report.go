package controlplane

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// reports reports each distinct fault once, and again only after its subject has worked in between.
type reports struct {
	onError func(error)
	logger  *slog.Logger

	mu   sync.Mutex
	told map[string]string // the last fault by subject
}

// The subjects of faults other than documents, addresses and keys.
const (
	aboutCache   = "last known good on disk"
	aboutWatch   = "watch of the store"
	aboutKeys    = "number of keys"
	aboutReports = "reports to the server"
)

func newReports(onError func(error), logger *slog.Logger) *reports {
	logger = cmp.Or(logger, slog.Default())
	return &reports{onError: onError, logger: logger, told: map[string]string{}}
}

// fault reports err unless the last fault of the same subject had the same text.
func (r *reports) fault(about, text string, err error) {
	r.mu.Lock()
	known := r.told[about] == text
	r.told[about] = text
	r.mu.Unlock()
	if known {
		return
	}
	r.logger.Warn("fault of a policy provider", "error", err)
	if r.onError != nil {
		r.onError(err)
	}
}

// works notes that a subject works again.
func (r *reports) works(about string) {
	if r.forget(about) {
		r.logger.Info("policy provider works again", "about", about)
	}
}

// forget removes the last fault of a subject, and reports whether there was one.
func (r *reports) forget(about string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, failed := r.told[about]
	delete(r.told, about)
	return failed
}

// early returns d less up to a tenth, at random, so that instances that start together drift apart.
func early(d time.Duration) time.Duration { return d - rand.N(d/10+1) }
