package main

import (
	"bytes"
	"fmt"

	"github.com/tenetdev/tenet/prove"
)

const proveHead = `# What can be proved of a policy document

Generated from the rules of package ` + "`prove`" + ` by ` + "`go generate ./...`" + `; do not edit.

` + "`tenet policy prove`" + ` decides properties of a [policy document](policy-reference.md) before it is in force. Each verdict comes with its
numbers, and each violation with a counterexample: questions to the code that makes the decisions at run time, with its answers.

` + "```sh" + `
tenet policy prove policies.yaml
tenet policy prove policies.yaml --graph graph.yaml --sarif prove.sarif
` + "```" + `

It exits with 4 if a property is violated, whether as an error or as a warning. Notes only state numbers. ` + "`--all`" + ` also prints what holds, and
` + "`-o json`" + ` always does. ` + "`--sarif`" + ` writes SARIF 2.1.0 for code hosts and editors. A [server](server.md) refuses to publish a document with
an error, and publishes one with warnings only if they are accepted. The [web UI](ui.md) shows both in its text editor; the page of a
revision shows everything that is proved of it.

## What a verdict means

A verdict is about the document alone. It holds for every seed, every traffic and every duration of attempts, under these assumptions:

- operations honour their contexts, so that an attempt ends with its timeout;
- budgets are those of the document, although a budget that a program registers under the same name would win;
- budgets, breakers and limits with ` + "`scope: shared`" + ` are not judged by what one process counts;
- classifiers named ` + "`http`" + ` and ` + "`grpc`" + `, and the classes of HTTP and gRPC, are those of Tenet's packages;
- ` + "`max_extra_load`" + ` is at least a billionth.

Leases and retention do not appear: a worker renews the lease of a running job, and retention removes only jobs that have ended, so only
a deadline can end a job early. A violation that many keys inherit from one field is reported once, for the first of them.

Three kinds of violation have no counterexample, because there is nothing to ask at run time: a budget that no policy asks
(` + "`budget-never-binds`" + `; a budget that some policy asks has one), an entry of ` + "`prove.suppress`" + ` without effect
(` + "`suppression-unused`" + `), and an entry of ` + "`prove.outages`" + ` that matches no policy.

## Outages that work must survive

A document does not say by itself how long a dependency may be unavailable. An entry of ` + "`prove.outages`" + ` declares the longest outage that a
policy's work must survive, and the rule [outage-outlasts-retries](#outage-outlasts-retries) compares it with the policy's retries. ` + "`path`" + ` is
the policy's path in the document, as ` + "`tenet policy prove -o json`" + ` prints it.

## Accepting a finding

A document accepts a finding with its code, its path and a reason. An entry without effect is a warning itself.

` + "```yaml" + `
version: 1
consumers:
  orders:
    steps: {process: {retry: {max_attempts: 5}}}
prove:
  suppress:
    - {code: zero-delay, path: consumers.orders.steps.process.retry, reason: the task waits by itself}
` + "```" + `

## Call graphs

A graph says which service calls which, how often per request (` + "`calls`" + `, default 1), and under which policy: ` + "`key`" + ` names one of the
document, ` + "`attempts`" + ` stands for a policy elsewhere. ` + "`failures`" + ` is the share of attempts that fail. A graph has no cycle.

` + "```text" + `
version: 1
nodes: [web, api, db]
edges:
  - {from: web, to: api, key: api.Get, calls: 2}
  - {from: api, to: db, attempts: 3, failures: 0.01}
` + "```" + `

` + "`tenet map --graph graph.yaml --policy policies.yaml`" + ` multiplies along it. For each call and each service it prints how many requests one
request becomes at worst (every attempt fails), what retry ratios leave of that in the long run, and the mean for the given shares of
failures before and after budgets; ` + "`--svg`" + ` draws it. Five layers of 3 attempts make 3⁵ = 243. A service is taken as a process with budgets of its own. Calls
of one service that share a budget earn tokens for each other, and all of these may be spent on one of them; a budget of scope shared
counts as no bound where several calls take from it. The burst is left out; token buckets bound a rate, not a factor. The mean takes failures
as independent and leaves hedges out. It agrees with the simulator within 1 %.

` + "`tenet map --audit URL`" + ` draws the graph that an audit log recorded: the work that ran outside any attempt, the calls that ran inside its
attempts, and how many attempts all of them took on average. The log's member ` + "`parent`" + ` names the key in whose attempt a call ran, which the
call's context knows; across processes it does not, so such calls stand as work of their own. Successes that sampling only counted are
included. Work that ran inside an attempt of its own key is refused, because requests along a cycle have no number without retries.

## Retry bugs of other systems

The study "If At First You Don't Succeed, Try, Try, Again...?" (SOSP 2024) lists 70 retry bugs of Elasticsearch, Hadoop, HBase, Hive, Kafka,
Spark and others. Its data set puts 23 of them down to missing or unsafe caps and missing delays, and names them. Of these 23:

| bugs | what became of them |
|---|---|
| 21: Elasticsearch 85003, HBASE-20492, HBASE-20827, HBASE-21248, HBASE-22287, HIVE-19642, HIVE-21925, HIVE-23591, KAFKA-9314, YARN-4113 (no delay), Elasticsearch 79445, HBASE-21796, HBASE-24546, KAFKA-15475, YARN-8710 (no end), Elasticsearch 102528 (a delay that does not grow), Elasticsearch 25951 (an attempt takes all the time that retries have), HBASE-8776, HIVE-20761 (retries that end before the outage does), HDFS-15439 (a negative maximum taken for none), SPARK-28163 (settings in another case ignored) | transcribed by hand as documents in the tests of package ` + "`" + `prove` + "`" + `, from the text of each bug, and HIVE-19642 from its title and from the code before and after it; all are found, the last two when the document is read |
| 2: HBASE-24420, HIVE-21105 | not decidable from a document: the first retried once for each region instead of the number set; the second, known here from a line of the study's data set, wants delays that are fixed in code to become settings |

The 21 show that the rules cover these kinds of bugs, not how many bugs they would have found in the systems' own code. In particular, a document
cannot say "without end": the 5 bugs of this kind are written as ` + "`" + `max_attempts: 1000` + "`" + `, the highest number that a document may hold,
which is the very threshold of the rule [unbounded-retry](#unbounded-retry). A cap of 999 would pass it. HBASE-8776 and
HIVE-20761, whose retries ended too early, are found only because their documents declare an outage, of 5 minutes and of 1 minute. These
lengths were chosen with the fixes known; the fixed settings outlast them.

## Rules

| code | severity | property |
|---|---|---|
`

// provePage writes a section per rule.
func provePage() []byte {
	var b bytes.Buffer
	b.WriteString(proveHead)
	for _, r := range prove.Rules() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", r.Code, r.Code, r.Severity, r.Property)
	}
	for _, r := range prove.Rules() {
		fmt.Fprintf(&b, "\n### %s\n\n%s %s\n", r.Code, r.Property, r.Why)
		if r.Graph != "" {
			fmt.Fprintf(&b, "\nWith this call graph:\n\n```text\n%s```\n", r.Graph)
		}
		example := "Violated"
		if r.Severity == prove.Note { // which is never violated
			example = "Worth a look"
		}
		fmt.Fprintf(&b, "\n"+example+":\n\n```yaml\n%s```\n\nRemedy: %s.\n\n```yaml\n%s```\n", r.Violating, r.Remedy, r.Mended)
	}
	return b.Bytes()
}
