// Package execjob is a ready-made job type that runs a command. Whoever may enqueue such jobs may run anything that the
// worker's user may: register it only where that is meant.
//
// # The model
//
// Exit code 0 completes the job; every other one is a failed attempt, retried under the job's policy. The command gets a
// small environment (PATH, HOME, LANG, TZ), what the payload adds, TENET_JOB_ID and TENET_ATTEMPT; not the worker's own,
// which may hold secrets. An attempt that times out or is cancelled is stopped with everything that it started. The tail
// of the output is kept, bounded.
package execjob
