package migrate_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/internal/migrate"
)

func files(names ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, n := range names {
		m["migrations/"+n] = &fstest.MapFile{Data: []byte("-- " + n + "\nSELECT '{{schema}}.x', '{{schema}}.y';")}
	}
	return m
}

func load(t *testing.T) *migrate.Set {
	t.Helper()
	s, err := migrate.Load(files("001_jobs.up.sql", "001_jobs.down.sql", "002_audit.up.sql", "002_audit.down.sql"), migrate.Record{Up: "INSERT {{version}} '{{name}}';", Down: "DELETE {{version}};"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func headings(steps []migrate.Step) string {
	var names []string
	for _, s := range steps {
		names = append(names, s.String())
	}
	return strings.Join(names, " ")
}

func TestJ14PlanListsWhatIsMissingInOrder(t *testing.T) {
	s := load(t)
	one, two := migrate.Applied{Version: 1, At: time.Unix(1, 0)}, migrate.Applied{Version: 2, At: time.Unix(2, 0)}
	for _, c := range []struct {
		direction migrate.Direction
		applied   []migrate.Applied
		want      string
	}{
		{migrate.Up, nil, "001_jobs.up 002_audit.up"},
		{migrate.Up, []migrate.Applied{one}, "002_audit.up"},
		{migrate.Up, []migrate.Applied{two, one}, ""},
		{migrate.Down, []migrate.Applied{one, two}, "002_audit.down"},
		{migrate.Down, []migrate.Applied{one}, "001_jobs.down"},
		{migrate.Down, nil, ""},
	} {
		steps, err := s.Plan(c.direction, c.applied, `"x"`)
		if err != nil || headings(steps) != c.want {
			t.Errorf("%s with %v: %s, %v; want %s", c.direction, c.applied, headings(steps), err, c.want)
		}
	}
}

func TestJ14SQLIsRendered(t *testing.T) {
	steps, err := load(t).Plan(migrate.Up, nil, `"my schema"`)
	if err != nil || steps[1].SQL != "-- 002_audit.up.sql\nSELECT '\"my schema\".x', '\"my schema\".y';\nINSERT 2 'audit';" {
		t.Fatalf("%+v, %v", steps, err)
	}
}

func TestJ14StatusNamesEveryVersion(t *testing.T) {
	at := time.Unix(7, 0)
	got, err := load(t).Status([]migrate.Applied{{Version: 1, At: at}})
	want := []migrate.Status{{Version: 1, Name: "jobs", Applied: true, AppliedAt: at}, {Version: 2, Name: "audit"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v\n%s", err, diff)
	}
}

func TestJ14ANewerDatabaseIsRejected(t *testing.T) {
	s := load(t)
	newer := []migrate.Applied{{Version: 1}, {Version: 2}, {Version: 3}}
	if _, err := s.Plan(migrate.Up, newer, ""); err == nil || !strings.Contains(err.Error(), "newer tenet") {
		t.Errorf("plan: %v", err)
	}
	if _, err := s.Status(newer); err == nil {
		t.Error("status of a newer database")
	}
}

func TestJ14InconsistentFilesAreRejected(t *testing.T) {
	for name, set := range map[string]fstest.MapFS{
		"no files":       files(),
		"a gap":          files("001_a.up.sql", "001_a.down.sql", "003_b.up.sql", "003_b.down.sql"),
		"no first":       files("002_a.up.sql", "002_a.down.sql"),
		"no up":          files("001_a.down.sql"),
		"no up between":  files("001_a.down.sql", "002_b.up.sql", "002_b.down.sql"),
		"no down":        files("001_a.up.sql"),
		"two names":      files("001_a.up.sql", "001_a.down.sql", "001_b.up.sql", "001_b.down.sql"),
		"a strange name": files("1.up.sql"),
	} {
		if _, err := migrate.Load(set, migrate.Record{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
