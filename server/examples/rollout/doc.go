// Command rollout shows two services that follow one policy document of a server: a revision that does harm reaches some of
// their instances and is taken back by itself, and a good one reaches all of them. It takes about a minute.
//
//	go run ./server/examples/rollout
package main
