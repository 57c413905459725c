package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// machine names the processor, the system and the toolchain.
func machine() string {
	return fmt.Sprintf("%s, GOMAXPROCS %d, %s/%s, %s", processor(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

func processor() string {
	name := "unknown processor"
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if field, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(field) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d processors", name, runtime.NumCPU())
}

// load returns the load averages of the last 1, 5 and 15 minutes.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

// versions lists the measured modules and their databases.
func versions(env *environment) []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	measured := []string{
		"github.com/riverqueue/river", "github.com/riverqueue/river/riverdriver/riverpgxv5", "maragu.dev/goqite", "github.com/jackc/pgx/v5", "modernc.org/sqlite",
	}
	var list []string
	for _, m := range info.Deps {
		if slices.Contains(measured, m.Path) {
			list = append(list, m.Path+" "+m.Version)
		}
	}
	if len(env.versions) > 0 {
		list = append(list, "River SQLite, in its own process: "+strings.Join(env.versions, ", "))
	}
	return list
}
