package testserver

import "syscall"

// attributes makes a process that gets a signal when its parent dies. Its process group is its own, so that Ctrl-C does not end it
// before its tests have, and that all it has started can be ended with it.
func attributes(as *syscall.Credential, orphan syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true, Pdeathsig: orphan}
}
