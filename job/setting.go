package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
)

// Setting is what an operator has set in a store, in place of the default that a document, a file or code supplies to the
// workers. Settings are never removed: one without a value says when the default came back.
type Setting struct {
	Kind  SettingKind     `json:"kind"`
	Name  string          `json:"name"`            // of the queue or the periodic job
	Value json.RawMessage `json:"value,omitempty"` // absent: the default applies
	By    string          `json:"by,omitempty"`    // who set it
	At    time.Time       `json:"at,omitzero"`     // when, by the store's clock

	Previous   json.RawMessage `json:"previous,omitempty"` // the value that this one has replaced
	PreviousAt time.Time       `json:"previous_at,omitzero"`
}

// SettingKind is what a setting is about.
type SettingKind string

// The kinds.
const (
	SettingConcurrency SettingKind = "concurrency" // of a queue: how many of its jobs each worker runs at once
	SettingPeriodic    SettingKind = "periodic"    // a periodic job
)

// SettingStore is implemented by stores that keep settings.
type SettingStore interface {
	// Settings returns all settings by kind and name, and their version, which grows with every change and is 0 at first. It
	// returns no list if the version is still the known one.
	Settings(ctx context.Context, known int64) (list []Setting, version int64, err error)
	// PutSetting stores a setting if the version is still the given one, and otherwise returns an error that wraps ErrConflict.
	// The store sets At, Previous and PreviousAt.
	PutSetting(ctx context.Context, s Setting, version int64) error
}

// Limits of settings.
const (
	MaxConcurrency  = 100_000
	maxSettingBytes = 1 << 20
	maxSettingName  = 255 // bytes
)

const (
	settingsEvery = 500 * time.Millisecond // how often workers look for changes
	// settleTicks is how long after a change the ticks of a periodic job still follow its former definition. All workers know the
	// change before, so each tick follows the same definition in all of them.
	settleTicks = 2 * time.Second
)

// ConcurrencySetting sets how many jobs of a queue each worker runs at once, from 1 to 100,000.
func ConcurrencySetting(queue string, n int) (Setting, error) {
	value, err := json.Marshal(n)
	if err != nil {
		return Setting{}, err
	}
	s := Setting{Kind: SettingConcurrency, Name: queue, Value: value}
	return s, s.Check()
}

// Concurrency returns the value of a setting of that kind; ok is false if the default applies.
func (s *Setting) Concurrency() (n int, ok bool) {
	if s.Kind != SettingConcurrency || s.Value == nil || json.Unmarshal(s.Value, &n) != nil {
		return 0, false
	}
	return n, n >= 1 && n <= MaxConcurrency
}

// SettingError reports a field of a setting that cannot be stored.
type SettingError struct{ Field, Problem string }

// Error implements error.
func (e *SettingError) Error() string { return "job: setting: " + e.Field + ": " + e.Problem }

// Check returns a *SettingError for a setting that workers could not follow.
func (s *Setting) Check() error {
	if problem := textProblem(s.Name, maxSettingName); problem != "" || s.Name == "" {
		problem = cmp.Or(problem, "missing")
		return &SettingError{"name", problem}
	}
	if len(s.Value) > maxSettingBytes {
		return &SettingError{"value", fmt.Sprintf("%d bytes, above the limit of %d", len(s.Value), maxSettingBytes)}
	}
	switch s.Kind {
	case SettingConcurrency:
		if problem := textProblem(s.Name, maxQueueBytes); problem != "" {
			return &SettingError{"name", problem}
		}
		if _, ok := s.Concurrency(); s.Value != nil && !ok {
			return &SettingError{"concurrency", fmt.Sprintf("%s is not a number from 1 to %d; to stop a queue, pause it", s.Value, MaxConcurrency)}
		}
	case SettingPeriodic:
		if _, _, err := s.Periodic(); err != nil {
			return &SettingError{"periodic", err.Error()}
		}
	default:
		return &SettingError{"kind", fmt.Sprintf("%q is unknown; write concurrency or periodic", s.Kind)}
	}
	return nil
}

// ChangeSetting checks and stores a setting, and returns it as it was stored. If a periodic job was changed less than 2 s ago,
// ChangeSetting waits until the 2 s are over, because until then workers may follow either definition.
//
// If allow is not nil, it gets the setting that is about to be replaced and the version of all settings, and an error from it
// ends the change. It is called again if another change came first, so it has always seen the setting that is replaced.
func ChangeSetting(ctx context.Context, store SettingStore, s Setting, allow func(before *Setting, version int64) error) (Setting, error) {
	if err := s.Check(); err != nil {
		return Setting{}, err
	}
	for waited := (time.Time{}); ; {
		before, version, err := findSetting(ctx, store, s.Kind, s.Name)
		if err != nil {
			return Setting{}, err
		}
		if rest := min(time.Until(before.At.Add(settleTicks)), settleTicks); s.Kind == SettingPeriodic && rest > 0 && !before.At.Equal(waited) {
			waited = before.At // once: the store's clock may be ahead
			if err := wait.For(ctx, rest); err != nil {
				return Setting{}, err
			}
			continue
		}
		if allow != nil {
			if err := allow(&before, version); err != nil {
				return Setting{}, err
			}
		}
		err = store.PutSetting(ctx, s, version)
		switch {
		case errors.Is(err, ErrConflict): // another setting has changed meanwhile, or this one
			continue
		case err != nil:
			return Setting{}, err
		}
		s, _, err = findSetting(ctx, store, s.Kind, s.Name)
		return s, err
	}
}

// findSetting returns a setting, with no time if it has never been made, and the version of all settings.
func findSetting(ctx context.Context, store SettingStore, kind SettingKind, name string) (s Setting, version int64, err error) {
	list, version, err := store.Settings(ctx, -1)
	for _, s := range list {
		if s.Kind == kind && s.Name == name {
			return s, version, err
		}
	}
	return Setting{Kind: kind, Name: name}, version, err
}

// follower makes a worker follow the settings of its store.
type follower struct {
	store   SettingStore
	timeout time.Duration // of one call
	health  *health
	apply   func([]Setting)
	version int64 // of the settings that were applied last
}

// run looks for changes until ctx ends.
func (f *follower) run(ctx context.Context) {
	tick := time.NewTicker(settingsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.look(ctx, f.timeout)
	}
}

func (f *follower) look(ctx context.Context, timeout time.Duration) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	list, version, err := f.store.Settings(limited, f.version)
	f.health.reportUnder(ctx, "read settings", err)
	if err == nil && version != f.version {
		f.version = version
		f.apply(list)
	}
}
