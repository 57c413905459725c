// Package rollout decides how a new revision of a policy document reaches a fleet of clients. It is pure: it does not read a
// clock, perform I/O or draw random numbers, so that every server that sees the same numbers decides the same.
//
// A [Plan] lists the steps of a rollout, each with a growing share of the clients, and the increases that count as harm.
// [Assign] places a client between 0 and 1; [Plan.Selects] says whether a step delivers the new revision to it. Clients count
// what happens to their calls in [Counters]. [Judge] compares the clients on the new revision with those on the old one and
// returns a verdict: wait, advance, promote or revert.
//
// # What the judgement promises
//
// Each measure gets an interval for the difference between the two groups. The intervals are a confidence sequence: with the
// plan's confidence, all intervals of a step contain the truth at every look, however often the judgement runs. A revision is
// reverted as soon as an interval lies above its threshold. It advances only when the intervals of failures, extra attempts
// and breaker openings lie below theirs, the latency is known and not shown to be worse, and the step has lasted long enough
// and seen enough calls. Without evidence it waits.
//
// The method is the normal mixture of Robbins (1970), which underlies the mixture sequential probability ratio test of Johari,
// Koomen, Pekelis and Walsh ("Always Valid Inference", Operations Research 70, 2022) and the confidence sequences of Howard,
// Ramdas, McAuliffe and Sekhon ("Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49,
// 2021). The variance is estimated, as in the asymptotic confidence sequences of Waudby-Smith, Arbour, Sinha, Kennedy and
// Ramdas ("Time-uniform central limit theory and asymptotic confidence sequences", Annals of Statistics 52, 2024), so the
// error rate is approximate; simulations in the package's tests check it.
//
// Clients differ, and calls of one client resemble each other. The variance is therefore computed over clients
// ([Counters.AddClient]), with the correction of Student's t for few clients, and never falls below that of independent calls.
package rollout
