// Package serve runs the server, and has the commands for what only servers have: tokens, published documents and clients.
package serve
