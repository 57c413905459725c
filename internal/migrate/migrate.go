package migrate

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Direction says whether versions are applied or reverted.
type Direction string

// The directions.
const (
	Up   Direction = "up"   // to the newest version
	Down Direction = "down" // back by one version
)

// Step is one version's change in one direction.
type Step struct {
	Version   int       `json:"version"`
	Name      string    `json:"name"`
	Direction Direction `json:"direction"`
	SQL       string    `json:"sql,omitempty"` // rendered
}

// String is the step's heading.
func (s Step) String() string { return fmt.Sprintf("%03d_%s.%s", s.Version, s.Name, s.Direction) }

// Applied is a version that a database has.
type Applied struct {
	Version int
	At      time.Time
}

// Status says whether a version is applied.
type Status struct {
	Version   int       `json:"version"`
	Name      string    `json:"name"`
	Applied   bool      `json:"applied"`
	AppliedAt time.Time `json:"applied_at,omitzero"` // zero where it is not applied
}

// Set holds all versions of a store in order. It is immutable.
type Set struct {
	versions []version
	record   Record
}

// Record is the SQL that adds a step's version to the list of applied versions, or removes it. {{version}} and {{name}} stand for the
// version and name of the step.
type Record struct{ Up, Down string }

type version struct {
	name     string
	up, down string
}

var fileName = regexp.MustCompile(`^(\d{3})_([a-z0-9_]+)\.(up|down)\.sql$`)

// Load reads the .sql files of the folder "migrations". It returns an error unless the versions go from 1 without gaps and each
// has both directions. Each step ends with its record.
func Load(files fs.FS, record Record) (*Set, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	slices.Sort(names)
	s := &Set{record: record}
	for _, file := range names { // "down" comes before "up"
		part := fileName.FindStringSubmatch(path.Base(file))
		if part == nil {
			return nil, fmt.Errorf("migrate: %s: the name is not NNN_name.up.sql or NNN_name.down.sql", file)
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, fmt.Errorf("migrate: %w", err)
		}
		number, _ := strconv.Atoi(part[1])
		switch n := len(s.versions); {
		case part[3] == "down" && number == n+1:
			s.versions = append(s.versions, version{name: part[2], down: string(text)})
		case part[3] == "up" && number == n && s.versions[n-1].name == part[2] && s.versions[n-1].up == "":
			s.versions[n-1].up = string(text)
		default:
			return nil, fmt.Errorf("migrate: %s: versions go from 001 without gaps, each with one name, an up and a down file", file)
		}
		if n := len(s.versions); n > 1 && s.versions[n-2].up == "" {
			return nil, fmt.Errorf("migrate: %03d_%s.up.sql is missing", n-1, s.versions[n-2].name)
		}
	}
	if n := len(s.versions); n == 0 || s.versions[n-1].up == "" {
		return nil, fmt.Errorf("migrate: the up file of version %03d is missing", max(n, 1))
	}
	return s, nil
}

// Plan lists the steps from the applied versions in a direction, with {{schema}} replaced in their SQL. It is empty if nothing
// is due.
func (s *Set) Plan(d Direction, applied []Applied, schema string) ([]Step, error) {
	have, err := s.check(applied)
	if err != nil {
		return nil, err
	}
	if d == Down {
		for i := len(s.versions); i > 0; i-- {
			if _, ok := have[i]; ok {
				return []Step{s.step(i, Down, schema)}, nil
			}
		}
		return nil, nil
	}
	var steps []Step
	for i := range s.versions {
		if _, ok := have[i+1]; !ok {
			steps = append(steps, s.step(i+1, Up, schema))
		}
	}
	return steps, nil
}

// Status lists all versions in order.
func (s *Set) Status(applied []Applied) ([]Status, error) {
	have, err := s.check(applied)
	if err != nil {
		return nil, err
	}
	list := make([]Status, len(s.versions))
	for i, v := range s.versions {
		at, ok := have[i+1]
		list[i] = Status{Version: i + 1, Name: v.name, Applied: ok, AppliedAt: at}
	}
	return list, nil
}

func (s *Set) check(applied []Applied) (map[int]time.Time, error) {
	have := make(map[int]time.Time, len(applied))
	for _, a := range applied {
		if a.Version < 1 || a.Version > len(s.versions) {
			return nil, fmt.Errorf("migrate: the database has version %d, this program knows %d: use a newer tenet", a.Version, len(s.versions))
		}
		have[a.Version] = a.At
	}
	return have, nil
}

func (s *Set) step(number int, d Direction, schema string) Step {
	v := s.versions[number-1]
	text, record := v.up, s.record.Up
	if d == Down {
		text, record = v.down, s.record.Down
	}
	record = strings.NewReplacer("{{version}}", strconv.Itoa(number), "{{name}}", v.name).Replace(record)
	return Step{Version: number, Name: v.name, Direction: d, SQL: Render(text+"\n"+record, schema)}
}

// Render replaces every {{schema}} with schema, which the caller has quoted.
func Render(text, schema string) string { return strings.ReplaceAll(text, "{{schema}}", schema) }
