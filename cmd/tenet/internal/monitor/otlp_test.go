package monitor

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestACollectorsOutageAndRecoveryAreLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	c := &collector{log: slog.New(slog.NewTextHandler(&out, nil)), address: "http://c", failing: map[string]bool{}}
	away := errors.New("connection refused")
	for _, step := range []struct {
		what string
		err  error
	}{{"traces", nil}, {"traces", away}, {"metrics", away}, {"traces", away}, {"traces", nil}, {"metrics", nil}, {"metrics", nil}, {"traces", away}} {
		c.record(step.what, step.err)
	}
	if text := out.String(); strings.Count(text, "level=WARN") != 2 || strings.Count(text, "level=INFO") != 1 || strings.Count(text, "\n") != 3 {
		t.Errorf("the log holds:\n%s", text)
	}
}
