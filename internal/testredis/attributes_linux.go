package testredis

import "syscall"

// attributes makes a process that is killed when its parent dies. Its process group is its own, so that Ctrl-C does not end
// it before its tests have, and that all it has started can be ended with it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
