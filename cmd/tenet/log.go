package main

import (
	"context"
	"io"
	"log/slog"
	"strings"
)

func logLevels() []string { return []string{"debug", "info", "warn", "error"} }

// level is what --log-level says.
func (a *app) level() slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(a.logLevel)) // the flag takes no other words
	return level
}

// logger writes logs to w in the form and from the level that --log-format and --log-level say. verbose lowers the level to
// debug. Both handlers escape what they are given.
func (a *app) logger(w io.Writer, verbose bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: a.level()}
	if verbose {
		options.Level = slog.LevelDebug
	}
	if a.logFormat == formJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// structured reports whether everything on stderr is one stream of JSON, what commands say of themselves included.
func (a *app) structured() bool { return a.logFormat == formJSON }

// warn tells on stderr of something that need not end the command.
func (a *app) warn(format string, args ...any) {
	text := textf(format, args...)
	switch {
	case a.level() > slog.LevelWarn:
	case a.structured():
		a.logger(a.stderr, false).Warn(string(text))
	default:
		fprintln(a.stderr, a.paint(a.stderr, yellow, "tenet: warning:"), text)
	}
}

// note tells on stderr of something worth knowing; label begins the line where people read it.
func (a *app) note(label safe, format string, args ...any) {
	a.say(slog.LevelInfo, label, format, args...)
}

// say writes a line on stderr; label begins it where people read it.
func (a *app) say(level slog.Level, label safe, format string, args ...any) {
	text := textf(format, args...)
	switch {
	case a.level() > level:
	case a.structured():
		a.logger(a.stderr, false).Log(context.Background(), level, string(text))
	case label == "":
		fprintln(a.stderr, text)
	default:
		fprintln(a.stderr, label, text)
	}
}

// fail tells on stderr why a command failed, part by part.
func (a *app) fail(err error) {
	for _, text := range sentences(err) {
		text = strings.ReplaceAll(text, "\n\t", " ") // some drivers list what they tried below each other
		switch {
		case text == "":
		case a.structured():
			a.logger(a.stderr, false).Error(text)
		default:
			fprintf(a.stderr, "%s %s\n", a.paint(a.stderr, red, "tenet:"), text)
		}
	}
}
