package procgroup

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// aliveGroup reports whether the group has processes that still run. Where nobody reaps orphans, as in containers whose
// first process is not an init, dead processes stay in the group forever and must not be waited for.
func aliveGroup(leader int) bool {
	if errors.Is(syscall.Kill(-leader, 0), syscall.ESRCH) {
		return false
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	group := []byte(strconv.Itoa(leader))
	for _, e := range entries {
		if name := e.Name(); name[0] >= '0' && name[0] <= '9' && runsIn("/proc/"+name+"/stat", group) {
			return true
		}
	}
	return false
}

// runsIn reads "pid (name) state ppid pgrp …"; the name may hold anything, also spaces and parentheses.
func runsIn(stat string, group []byte) bool {
	text, err := os.ReadFile(stat)
	if err != nil {
		return false // it has just ended
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 3 || !bytes.Equal(fields[2], group) {
		return false
	}
	state := fields[0][0]
	return state != 'Z' && state != 'X'
}
