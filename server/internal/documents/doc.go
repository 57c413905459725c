// Package documents changes policy documents: it publishes revisions, brings old ones back, and starts and ends rollouts.
//
// Every change is one compare-and-set of the document's state in the store, so that any number of servers can run the same
// operations at the same time. An operation whose compare-and-set fails reads the state anew and checks its own conditions
// again.
//
// The states of a rollout:
//
//	                 Pause
//	running ◄──────────────────► paused          Resume starts it again where it stopped
//	   │  │      Resume             │
//	   │  └────────┐                │
//	   │ Judged    │ Abort          │ Abort
//	   ▼           ▼                ▼
//	promoted,     aborted        aborted
//	reverted
//
// A rollout that ends as reverted or aborted publishes the content of its base anew under a new number, so that a client
// never goes back in numbers.
package documents
