package job

import (
	"log/slog"
	"sync"
	"time"
)

// outage logs once that the store fails, whatever the worker asks of it, and once that everything works again.
type outage struct {
	log     *slog.Logger
	mu      sync.Mutex
	failing map[string]bool // what the worker does: claim, settle …
	since   time.Time
}

// failed notes that doing something failed and will be repeated.
func (o *outage) failed(doing string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.failing) == 0 {
		o.failing, o.since = map[string]bool{}, time.Now()
		o.log.Warn("job: the store fails; what was asked of it is repeated until it works again", "doing", doing, "error", err)
	} else {
		o.log.Debug("job: the store still fails", "doing", doing, "error", err)
	}
	o.failing[doing] = true
}

// works notes that something did not fail, or is not done any more.
func (o *outage) works(doing string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing[doing] {
		return
	}
	if delete(o.failing, doing); len(o.failing) == 0 {
		o.log.Info("job: the store works again", "after", time.Since(o.since).Round(time.Millisecond).String())
	}
}

// tell notes how something ended.
func (o *outage) tell(doing string, err error) {
	if err != nil {
		o.failed(doing, err)
		return
	}
	o.works(doing)
}
