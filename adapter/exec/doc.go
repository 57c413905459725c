// Package execjob is a ready-made job type that runs a command. Everyone who can enqueue such jobs can run any command as the
// worker's user: register it only where that is intended.
//
// # The model
//
// Exit code 0 completes the job; every other one is a failed attempt, retried under the job's policy. The command gets a
// small environment: PATH, HOME, LANG, TZ, the payload's variables, TENET_JOB_ID and TENET_ATTEMPT. It does not get the
// worker's environment, which may contain secrets. An attempt that times out or is cancelled is stopped with all processes
// that it started. A command that cannot start because the worker lacks file descriptors, processes or memory is tried again after
// 10 s, without using up an attempt. The job keeps the end of the output, up to a limit. Processes that a command leaves behind keep
// running, and the job does not wait for them.
package execjob
