package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// serverTime returns a function that reports the processor time of the server's processes, or nil if the server runs elsewhere
// or the system does not report it.
func serverTime(ctx context.Context, conn *pgx.Conn) (func() time.Duration, error) {
	backend := 0
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return nil, err
	}
	s, ok := readStat(strconv.Itoa(backend))
	if !ok || !strings.Contains(s.name, "postgres") {
		return nil, nil
	}
	return func() time.Duration { return treeTime(s.parent) }, nil
}

// ticks is the unit of times in /proc: Linux shows a hundredth of a second whatever the kernel counts in.
const ticks = time.Second / 100

// stat is a part of /proc/PID/stat.
type stat struct {
	name       string
	parent     string
	own, ended time.Duration // processor time of the process and of its ended children
}

func readStat(pid string) (s stat, ok bool) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return s, false
	}
	text := string(b)
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return s, false
	}
	fields := strings.Fields(text[end+1:]) // from the third field, the state, on
	if len(fields) < 15 {
		return s, false
	}
	at := func(i int) time.Duration {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return time.Duration(n) * ticks
	}
	return stat{name: text[open+1 : end], parent: fields[1], own: at(11) + at(12), ended: at(13) + at(14)}, true
}

// treeTime is the time of a process, its children and those that have ended.
func treeTime(pid string) time.Duration {
	root, _ := readStat(pid)
	total := root.own + root.ended
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if s, ok := readStat(e.Name()); ok && s.parent == pid {
			total += s.own
		}
	}
	return total
}
