package cli

import (
	"context"
	"io"
	"log/slog"
	"strings"
)

func logLevels() []string { return []string{"debug", "info", "warn", "error"} }

// Level is what --log-level says.
func (a *App) Level() slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(a.LogLevel)) // the flag takes no other words
	return level
}

// Logger writes logs to w in the form and from the level that --log-format and --log-level say. verbose lowers the level to
// debug. Both handlers escape what they are given.
func (a *App) Logger(w io.Writer, verbose bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: a.Level()}
	if verbose {
		options.Level = slog.LevelDebug
	}
	if a.LogFormat == FormJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// Structured reports whether everything on stderr is one stream of JSON, what commands say of themselves included.
func (a *App) Structured() bool { return a.LogFormat == FormJSON }

// Warn tells on stderr of something that need not end the command.
func (a *App) Warn(format string, args ...any) {
	text := Textf(format, args...)
	switch {
	case a.Level() > slog.LevelWarn:
	case a.Structured():
		a.Logger(a.Stderr, false).Warn(string(text))
	default:
		Fprintln(a.Stderr, a.Paint(a.Stderr, Yellow, "tenet: warning:"), text)
	}
}

// Note tells on stderr of something worth knowing; label begins the line where people read it.
func (a *App) Note(label Safe, format string, args ...any) {
	a.Say(slog.LevelInfo, label, format, args...)
}

// Say writes a line on stderr; label begins it where people read it.
func (a *App) Say(level slog.Level, label Safe, format string, args ...any) {
	text := Textf(format, args...)
	switch {
	case a.Level() > level:
	case a.Structured():
		a.Logger(a.Stderr, false).Log(context.Background(), level, string(text))
	case label == "":
		Fprintln(a.Stderr, text)
	default:
		Fprintln(a.Stderr, label, text)
	}
}

// fail tells on stderr why a command failed, part by part.
func (a *App) fail(err error) {
	for _, text := range sentences(err) {
		text = strings.ReplaceAll(text, "\n\t", " ") // some drivers list what they tried below each other
		switch {
		case text == "":
		case a.Structured():
			a.Logger(a.Stderr, false).Error(text)
		default:
			Fprintf(a.Stderr, "%s %s\n", a.Paint(a.Stderr, Red, "tenet:"), text)
		}
	}
}
