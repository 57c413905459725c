//go:build unix && !linux

package procgroup

import (
	"errors"
	"syscall"
)

// aliveGroup reports whether the group has any process.
func aliveGroup(leader int) bool { return !errors.Is(syscall.Kill(-leader, 0), syscall.ESRCH) }
