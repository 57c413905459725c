// Package wait waits under a context, for a time, a signal or a lock. It also says how long Tenet itself waits before it
// repeats a request to a store, a server or a broker. The waits of users' calls, jobs and steps come from policies instead.
package wait
