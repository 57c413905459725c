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
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return fmt.Sprintf("%d processors", runtime.NumCPU())
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return fmt.Sprintf("%s, %d processors", strings.TrimSpace(value), runtime.NumCPU())
		}
	}
	return fmt.Sprintf("%d processors", runtime.NumCPU())
}

// load returns the load averages of the last 1, 5 and 15 minutes, or "" if the system does not report them.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

// versions lists the measured modules.
func versions() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	peers := []string{"failsafe-go", "cenkalti", "avast", "sethvargo", "gobreaker", "x/time"}
	var list []string
	for _, m := range info.Deps {
		if slices.ContainsFunc(peers, func(p string) bool { return strings.Contains(m.Path, p) }) {
			list = append(list, m.Path+" "+m.Version)
		}
	}
	return list
}
