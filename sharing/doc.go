// Package sharing lets the processes of a service share budgets, breakers and limits.
//
// # The model
//
// Each shared limit has one state in a [Store]. A process takes a part of it and spends that part locally, so that no attempt
// waits for the store. A [Hub] has one goroutine, which exchanges the parts of all limits of the process with the store in the
// background:
//
//	attempts ──spend──► Member (a Lot, a breaker, …) ◄──Change, Settle── Hub ──Load, Swap──► Store
//	                        └────────Wake, near exhaustion────────────────┘
//
// An exchange is optimistic: the hub loads states with their versions, every [Member] computes its next state, and the store takes
// those whose version is still the same. Where another process was faster, the hub repeats the exchange for that limit. What a state
// means is known to its members only; a store keeps bytes.
//
// # Tokens
//
// A [Pool] holds the tokens of a budget or a rate, and a [Lot] is the part of it that one process holds. A lot asks for twice what was
// spent since the last exchange, at most its size, and fetches more before it is empty. Tokens beyond that are returned at the next
// exchange, which follows within a quarter of a second; [Hub.Close] returns the rest. Of a pool that time refills, a process keeps an equal
// share for its next burst, unless another process lacks tokens. The tokens of a process that dies are lost.
//
// # When the store is away
//
// Members go on with their last known part: a lot with the tokens that it holds, with what the process's own calls earn, and with an
// equal share of what time refills. No attempt waits for the store. [Hub.Watch] tells of the outage and its end.
package sharing
