// Command ui measures the web UI: how long the server takes for each page over a large store, and what open live pages cost.
// The server is a process of its own, so that its processor time and memory can be read.
package main
