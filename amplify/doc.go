// Package amplify multiplies attempts along a call graph: five layers that each make 3 attempts turn one request into
// 3⁵ = 243.
//
// # The model
//
// [Of] asks package decision how many attempts one call can become under its policy. [New] starts one request at every node that
// nobody calls and multiplies along the edges of the graph:
//
//	requests(to) = Σ requests(from) · calls · attempts, over the edges to the node
//
// once with the worst case, once with what budgets leave of it in the long run, once with the declared share of failures, again
// before and after budgets, and once without any retry. The amplification of a node is its number of requests divided by that without retries.
//
// The worst case is that every attempt of every call fails, which happens when the last node of a chain is down. The expected
// number of attempts takes failures as independent of each other, Σ pⁱ for i below the number of attempts, and leaves hedges out.
// A retry ratio bounds the extra attempts of all calls that share it to ratio · calls plus a burst; the burst, which counts
// once, is left out. A node is a process of its own, with its own budgets. Calls of one node that share a budget earn tokens for each
// other, so that all of them may be spent on one edge; so may the hedges that max_extra_load allows the calls of one key. A budget of
// scope shared bounds nothing here if several edges take from it. The graph must name every call of a node that shares a budget with
// another one. Token buckets bound a rate and not a factor, and count as no bound here.
//
// Everything here is pure: no clock, no I/O.
package amplify
