// Package testserver runs the server of another project as a process of a test: it is started, answers, is stopped or killed, and is
// started again. The packages testpg, testredis and testrabbit say how for their servers.
//
// # The model
//
//	         Run                  End
//	stopped ─────► starting ─────► running ─────► stopped
//	                  └──does not answer in time──► killed, and its output is in the error
//
// A process dies with the test process, also when that is killed.
package testserver
