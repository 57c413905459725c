// Package ui is the web UI of a server: pages over the jobs, policies and logs that the server's HTTP API serves. Every page and
// every action is a client of that API, in the same process, with the credentials of the browser's request: a person sees and does
// in the UI exactly what the same person sees and does with the command line.
//
//	s, err := server.New(ctx, options)
//	u, err := ui.New(s, ui.Options{})
//	s.Mount("/ui/", u.Handler())
//	err = s.Run(ctx, listener)
//
// # How a page works
//
//	GET page ─► page.load: calls of the API ─► template ─► HTML, complete without JavaScript
//	   └─► GET /ui/live?page=… ─► the same load and template, at most once a second and once for all who watch
//	                              the same page ─► server-sent event ─► the browser morphs its content
//
// An action is previewed before it is made: GET shows what would happen, with the exact count and the command line that does the
// same, and POST does it once, under an idempotency key that the preview has chosen.
//
// Nothing is loaded from elsewhere, and nothing has to be built: scripts and styles are embedded. The Content-Security-Policy
// allows neither inline scripts nor eval.
package ui
