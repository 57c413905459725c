// Package rollouts judges the running rollouts of a store and carries the judgements out.
//
// One server leads at a time. Leadership only saves work: each judgement is a compare-and-set of the document as the judge saw
// it, so that two leaders promote or revert a revision once. Everything that a leader needs is in the store, and another one
// continues where it stopped.
package rollouts
