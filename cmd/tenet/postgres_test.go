//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/tenetdev/tenet/internal/testpg"
)

// TestJobsOnPostgreSQL follows an operator: it creates the tables, runs jobs and removes the tables.
func TestJobsOnPostgreSQL(t *testing.T) {
	server, err := testpg.Start(testpg.NoSync)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	env := map[string]string{"TENET_STORE": server.URL()}
	for _, step := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"jobs stats", 5, "", "run `tenet migrate up"},
		{"worker --until-idle", 5, "", "--migrate"},
		{"migrate status", 4, "-", ""},
		{"migrate up --dry-run --show-sql", 0, "CREATE TABLE", ""},
		{"migrate status", 4, "-", ""},
		{`enqueue exec {"argv":["true"]} --migrate`, 0, "-", ""},
		{"migrate up", 0, "nothing to do", ""},
		{"worker --until-idle --allow-exec", 0, "", "working"},
		{"jobs stats", 0, "default  0        0          0      0        1", ""},
		{"jobs list -o jsonl", 0, `"state":"completed"`, ""},
		{"queues pause mail --create --reason why", 0, "is paused", ""},
		{"queues list", 0, "why", ""},
		{"migrate down", 2, "", "--yes"},
		{"migrate down --yes", 0, "-- applied 0", ""},
		{"migrate status", 4, "", ""},
	} {
		code, out, errs := runIn(t.Context(), env, "", strings.Fields(step.args)...)
		if code != step.code || !strings.Contains(out, step.stdout) || !strings.Contains(errs, step.stderr) {
			t.Errorf("tenet %s: code %d, want %d\n%s%s", step.args, code, step.code, out, errs)
		}
	}
	if code, _, errs := runIn(t.Context(), map[string]string{}, "", "jobs", "stats", "--store", "postgres://127.0.0.1:1/none?connect_timeout=2"); code != 1 {
		t.Errorf("an unreachable server: code %d: %s", code, errs)
	}
}
