package cli

import (
	"context"
	"io"
	"log/slog"
	"strings"
)

func logLevels() []string { return []string{"debug", "info", "warn", "error"} }

// Level returns the level of --log-level.
func (a *App) Level() slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(a.LogLevel)) // the flag accepts only level names
	return level
}

// Logger returns a logger that writes to w in the format of --log-format, from the level of --log-level on. verbose lowers the
// level to debug. Both handlers escape their input.
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

// Structured reports whether stderr is a stream of JSON log lines, the messages of commands included.
func (a *App) Structured() bool { return a.LogFormat == FormJSON }

// Warn prints a warning to stderr.
func (a *App) Warn(format string, args ...any) {
	a.Say(slog.LevelWarn, a.Paint(a.Stderr, Yellow, "tenet: warning:"), format, args...)
}

// Note prints a line at level info to stderr, after the label unless logs are JSON.
func (a *App) Note(label Safe, format string, args ...any) {
	a.Say(slog.LevelInfo, label, format, args...)
}

// Say prints a line at a level to stderr, after the label unless logs are JSON.
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

// fail prints an error to stderr, each part of a joined error on its own line.
func (a *App) fail(err error) {
	for _, text := range sentences(err) {
		text = strings.ReplaceAll(text, "\n\t", " ") // some drivers list their attempts on separate lines
		switch {
		case text == "":
		case a.Structured():
			a.Logger(a.Stderr, false).Error(text)
		default:
			Fprintf(a.Stderr, "%s %s\n", a.Paint(a.Stderr, Red, "tenet:"), text)
		}
	}
}
