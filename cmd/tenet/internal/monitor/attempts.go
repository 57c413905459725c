package monitor

import (
	"context"
	"log/slog"

	"github.com/tenetdev/tenet/observe"
)

// everyAttempt is what --verbose adds: it logs attempts and decisions, which are below the level of the other lines.
func everyAttempt(log *slog.Logger) observe.Observer {
	return observe.Slog(slog.New(everyLevel{log.Handler()}))
}

// everyLevel is a handler that takes lines of any level.
type everyLevel struct{ slog.Handler }

// Enabled implements slog.Handler.
func (everyLevel) Enabled(context.Context, slog.Level) bool { return true }
