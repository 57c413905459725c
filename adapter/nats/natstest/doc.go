// Package natstest runs NATS servers with JetStream inside of a test process, and puts faulty connections in front of them.
//
// # The model
//
// A test starts a server of its own. It listens on a free port of 127.0.0.1 and stores on files in a temporary folder; both
// stay the same when it is stopped and runs again, and are gone after the test. A [Proxy] between client and server holds
// answers up, or cuts connections: all of them, or one at a place in what a client sends.
//
//	n := natstest.Start(t)
//	p := natstest.Between(t, n)
//	conn, err := nats.Connect(p.URL())
//	…
//	p.CutOn("Nats-Batch-Commit", true)
package natstest
