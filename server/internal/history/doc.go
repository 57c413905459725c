// Package history keeps what happened in queues over the last day, in the memory of one server.
//
//	counters ──Add──► level 1 s   900 points, 15 minutes
//	              ├─► level 10 s  720 points, 2 hours
//	              └─► level 1 min 1440 points, a day
//
// A point has the counters at its end, and the rates and latencies since the point before. Samples may be further apart than
// a level's step; its points then are, too.
package history
