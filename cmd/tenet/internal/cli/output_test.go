package cli

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestColorPrecedence(t *testing.T) {
	for name, test := range map[string]struct {
		color string
		env   map[string]string
		want  bool
	}{
		"no terminal": {ColorAuto, nil, false},
		"always":      {ColorAlways, map[string]string{"NO_COLOR": "1"}, true},
		"never":       {ColorNever, nil, false},
	} {
		a := &App{Program: Program{Getenv: func(name string) string { return test.env[name] }}, Color: test.color}
		if got := a.colored(io.Discard); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1499 * time.Nanosecond: "1µs", 12_345 * time.Microsecond: "12.3ms", 1_234_567 * time.Microsecond: "1.23s", time.Hour: "1h0m0s",
	} {
		if got := Brief(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}

func TestTextsThatOldYAMLReadsAsBooleansOrNumbersAreQuoted(t *testing.T) {
	for _, text := range []string{"yes", "No", "on", "OFF", "y", "=", "12:30:45", "-1:30.5", "true", "null", "1e3", "2020-01-01"} {
		var out strings.Builder
		if err := encodeYAML(&out, []string{text}); err != nil || out.String() != "- \""+text+"\"\n" {
			t.Errorf("%q: %s%v", text, &out, err)
		}
	}
	var out strings.Builder
	if err := encodeYAML(&out, map[string]any{"a": []any{"not", "noon", "12:30 h", true, 1.5}}); err != nil || out.String() != "a:\n  - not\n  - noon\n  - 12:30 h\n  - true\n  - 1.5\n" {
		t.Errorf("%s%v", &out, err)
	}
}
