package periodic

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobline"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policyfile"
)

// periodicFile reads a file of periodic jobs and collects its faults.
type periodicFile struct {
	path   string
	jobs   []job.Periodic
	faults []policyfile.Fault
}

// yamlLine finds the line in an error of the YAML parser.
var yamlLine = regexp.MustCompile(`line (\d+)`)

func parsePeriodic(path string, text []byte) *periodicFile {
	f := &periodicFile{path: path}
	root, err := cli.ReadYAML(text)
	if err != nil {
		at := &yaml.Node{Line: 1, Column: 1}
		if found := yamlLine.FindStringSubmatch(err.Error()); found != nil {
			at.Line, _ = strconv.Atoi(found[1]) // digits
		}
		f.fault(at, "", strings.TrimPrefix(err.Error(), "yaml: "))
		return f
	}
	if root == nil { // an empty file has no jobs
		return f
	}
	if root.Kind != yaml.SequenceNode {
		f.fault(root, "", "expected a list of {name, cron, time_zone, missed, job}")
		return f
	}
	for i, n := range root.Content {
		f.entry(fmt.Sprintf("[%d]", i), n)
	}
	return f
}

func (f *periodicFile) fault(n *yaml.Node, path, problem string) {
	f.faults = append(f.faults, policyfile.Fault{File: f.path, Line: n.Line, Column: n.Column, Path: path, Problem: problem})
}

// entry reads one job.
func (f *periodicFile) entry(path string, n *yaml.Node) {
	var e periodicEntry
	before := len(f.faults)
	f.members(path, n, reflect.ValueOf(&e).Elem())
	if len(f.faults) > before {
		return
	}
	p, problems := e.periodic()
	if slices.ContainsFunc(f.jobs, func(other job.Periodic) bool { return other.Name == e.Name }) {
		problems = append(problems, fmt.Sprintf("name: %q was used before", e.Name))
	}
	for _, problem := range problems {
		at, where := n, path
		for field, rest, ok := strings.Cut(problem, ": "); ok && plainName.MatchString(field); field, rest, ok = strings.Cut(problem, ": ") {
			where, problem = where+"."+field, rest
			if value := member(at, field); value != nil {
				at = value
			}
		}
		f.fault(at, where, problem)
	}
	f.jobs = append(f.jobs, p)
}

var plainName = regexp.MustCompile(`^[a-z_]+$`)

func member(n *yaml.Node, name string) *yaml.Node {
	n = resolved(n)
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// members reads the fields of a mapping into a struct by their JSON names.
func (f *periodicFile) members(path string, n *yaml.Node, into reflect.Value) {
	n = resolved(n)
	if n.Kind != yaml.MappingNode {
		f.fault(n, path, "expected fields and their values")
		return
	}
	fields := map[string]int{}
	var names []string
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
		fields[name], names = i, append(names, name)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := path + "." + key.Value
		index, known := fields[key.Value]
		switch {
		case key.Value == "<<":
			f.members(path, value, into)
		case !known:
			f.fault(key, at, fmt.Sprintf("unknown field %q; known are %s", key.Value, strings.Join(names, ", ")))
		case seen[key.Value]:
			f.fault(key, at, "is given twice")
		case into.Field(index).Type() == reflect.TypeFor[jobline.Line]():
			f.members(at, value, into.Field(index))
		default:
			f.value(at, value, into.Field(index))
		}
		seen[key.Value] = true
	}
}

func (f *periodicFile) value(path string, n *yaml.Node, into reflect.Value) {
	var value any
	err := n.Decode(&value)
	if err != nil {
		f.fault(n, path, err.Error())
		return
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, into.Addr().Interface())
	}
	if err != nil {
		f.fault(n, path, fmt.Sprintf("%s cannot be read as %s", text, kindOf(into)))
	}
}

// kindOf describes the values of a field.
func kindOf(v reflect.Value) string {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		return "a time such as 2026-03-02T08:00:00Z"
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		return "JSON"
	case v.Kind() == reflect.Int:
		return "a whole number"
	}
	return "text"
}

// periodicCheck is the output of "periodic check" for a file.
type periodicCheck struct {
	File   string            `json:"file"`
	Valid  bool              `json:"valid"`
	Names  []string          `json:"names"`
	Faults []cli.FaultResult `json:"faults"`
}

func periodicCheckCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check FILE…", Short: "Report every fault of files of periodic jobs", Args: cobra.MatchAll(cobra.MinimumNArgs(1), cli.OneStdin),
		Long:    "Read files of periodic jobs and report every fault with its place. The file - is stdin. Exits with 3 if a file is\ninvalid.",
		Example: "  tenet periodic check nightly.yaml",
	}
	return cli.WithOutput(cmd, func(cmd *cobra.Command, files []string, form string) error {
		results, invalid := make([]periodicCheck, 0, len(files)), false
		for _, path := range files {
			text, err := a.ReadFile(cmd.Context(), path)
			if err != nil {
				return err
			}
			f := parsePeriodic(path, text)
			a.PrintFaults(f.faults)
			names := lists.Map(f.jobs, func(p job.Periodic) string { return p.Name })
			r := periodicCheck{path, len(f.faults) == 0, names, lists.Map(f.faults, cli.FaultResultOf)}
			results, invalid = append(results, r), invalid || !r.Valid
		}
		err := a.Print(form, results, func(w io.Writer) {
			for _, r := range results {
				if r.Valid {
					cli.Fprintf(w, "%s: %s, %s\n", r.File, a.Paint(a.Stdout, cli.Green, "valid"), cli.Count(len(r.Names), "periodic job"))
				} else {
					cli.Fprintf(w, "%s: %s, %s\n", r.File, a.Paint(a.Stdout, cli.Red, "invalid"), cli.Count(len(r.Faults), "fault"))
				}
			}
		})
		if err == nil && invalid {
			err = cli.Exit(cli.ExitInvalid)
		}
		return err
	})
}
