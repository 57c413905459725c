// Package procgroup runs a command together with everything that it starts, so that all of it can be stopped.
//
// # The model
//
// The command leads a process group of its own. While it runs nothing is done to it. When it must stop, the whole group
// is sent a signal and has a grace period to end; what is left of it then is killed:
//
//	running ──leader exits──► ended                              (what it left behind is not touched)
//	   └──stop──► stopping ──group is empty──► ended
//	                  └──grace is over, or kill──► killed ──► ended
//
// A command that ends by itself may leave processes running, as from a shell. A command that is stopped may not.
//
// Because of its own group, a command does not get the terminal's signals (Ctrl-C) by itself and cannot read from the
// terminal. Where the system has no process groups, only the command itself is stopped, at once and without grace.
package procgroup
