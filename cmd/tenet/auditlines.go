package main

import (
	"fmt"
	"io"

	"github.com/tenetdev/tenet/internal/files"
)

// unreadable counts the lines of a log that are not events.
type unreadable struct {
	lines, count int
	first        int // number of the first one, from 1
	why          error
}

// add counts a line; err is why it is not an event.
func (u *unreadable) add(err error) {
	u.lines++
	if err == nil {
		return
	}
	if u.count++; u.count == 1 {
		u.first, u.why = u.lines, err
	}
}

// tell warns of what was counted, and begins again with the next line.
func (a *app) tell(log *auditLog, u *unreadable) {
	where := fmt.Sprintf("line %d", u.first)
	if file, line := log.place(u.first - 1); file != "" && file != log.name {
		where = fmt.Sprintf("line %d of %s", line, file)
	}
	switch {
	case u.count == 1:
		a.warn("%s: %s was left out: %v; tenet audit verify says whether it was changed", log.name, where, u.why)
	case u.count > 1:
		a.warn("%s: %d lines were left out, the first is %s: %v; tenet audit verify says whether they were changed", log.name, u.count, where, u.why)
	}
	u.count = 0
}

// noEvents is the failure of a log without a single event.
func noEvents(log *auditLog, lines int) error {
	return fail(exitFailed, fmt.Errorf("%s: none of its lines (%d) is an intact event; give the log that --audit has written", log.name, lines))
}

// warnCut warns of a file whose last line has no end: readers leave it out, as it may be in the middle of being written.
func (a *app) warnCut(path string) {
	file, err := files.Open(path)
	if err != nil {
		return // the last file was rotated away, or reading has failed already
	}
	defer file.Close()
	last := make([]byte, 1)
	if _, err := file.Seek(-1, io.SeekEnd); err != nil { // it is empty
		return
	}
	if _, err := io.ReadFull(file, last); err == nil && last[0] != '\n' {
		a.warn("%s: the last line was left out: it has no end, so it was cut off or is being written", path)
	}
}
