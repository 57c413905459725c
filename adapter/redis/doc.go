// Package redis keeps the shares of limits in Redis or Valkey, and names the classes of their errors.
//
// # The model
//
// [Open] returns a [DB], which connects when it is first used. [DB.Limits] is its store of shared limits: the contract is
// sharing.Store. Each limit is a hash with a version and a state. Two Lua scripts read all states of an exchange and store those whose
// version is still current, each in one round trip; the clock is the server's.
//
//	db, err := redis.Open("redis://localhost:6379/0", redis.Options{})
//	…
//	hub := sharing.NewHub(db.Limits())
//
// Keys begin with "{tenet}:limit:", so that all are in one slot, and expire after a day without a change.
//
// # What it does not do
//
// A DB talks to the one address of its URL: it does not ask Sentinels, nor follow a cluster's redirections. After a failover, the
// address must lead to the new primary, by DNS or a proxy.
//
// A command is never repeated by itself, since a repeated exchange would count twice. A server that loses its data, by a restart
// without persistence or a failover to a replica that is behind, gives out again what it has forgotten. It works with Redis 5 and
// newer, and with Valkey.
package redis
