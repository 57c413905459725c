package auditlog

import (
	"fmt"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
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

// warnUnreadable warns of the lines counted since the last warning.
func warnUnreadable(a *cli.App, log *open.AuditLog, u *unreadable) {
	where := fmt.Sprintf("line %d", u.first)
	if file, line := log.Place(u.first - 1); file != "" && file != log.Name {
		where = fmt.Sprintf("line %d of %s", line, file)
	}
	switch {
	case u.count == 1:
		a.Warn("%s: %s was left out: %v; run tenet audit verify to see whether it was changed", log.Name, where, u.why)
	case u.count > 1:
		a.Warn("%s: %d lines were left out, the first is %s: %v; run tenet audit verify to see whether they were changed", log.Name, u.count, where, u.why)
	}
	u.count = 0
}

// logOf returns the log that a command was given, or "" for that of its server.
func logOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// logAndID splits the arguments [LOG] ID.
func logAndID(args []string) (log, id string) {
	last := len(args) - 1
	return logOf(args[:last]), args[last]
}
