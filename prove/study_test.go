package prove_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/prove"
)

// study holds retry bugs of the class "missing or unsafe cap, missing delay" in the data set of Stoica et al., "If At First You Don't
// Succeed, Try, Try, Again...?" (SOSP 2024), as documents, transcribed by hand. Of the 23 issues, these 21 are the ones whose policy a
// document can state. HBASE-24420 retried once for each region instead of the number set, and HIVE-21105 wants delays that are fixed in
// code to become settings: no document shows either to be a fault.
//
// "Without end" is max_attempts: 1000, the highest that a document can state, which is also the threshold of unbounded-retry: those 5
// show that the rule covers this way of writing it, and not that it would have found the bugs in code.
var study = []struct{ issue, about, text, finding string }{
	{"HBASE-20492", "UnassignProcedure fails and is executed again at once", step("max_attempts: 1000"), "zero-delay"},
	{"HBASE-20827", "reportRegionStateTransition is retried at once after CallQueueTooBigException", step("max_attempts: 100"), "zero-delay"},
	{"HBASE-21248", "ModifyPeerProcedure has no backoff", step("max_attempts: 1000"), "zero-delay"},
	{"HBASE-22287", "RSProcedureDispatcher retries a failed server without end, and without a delay", step("max_attempts: 1000"), "zero-delay"},
	{"HIVE-21925", "HiveConnection retries without an interval", step("max_attempts: 5"), "zero-delay"},
	{"HIVE-23591", "the compactor's worker looks for the metastore again without sleeping", step("max_attempts: 1000"), "zero-delay"},
	{"YARN-4113", "RETRY_FOREVER ignores the configured interval", step("max_attempts: 1000"), "zero-delay"},
	{"HBASE-21796", "RecoverableZooKeeper retries a client in AUTH_FAILED without end", step("max_attempts: 1000, backoff: 1s, backoff_cap: 1m"), "unbounded-retry"},
	{"HBASE-24546", "CloneSnapshotProcedure is retried without end", step("max_attempts: 1000, backoff: 1s, backoff_cap: 10m"), "unbounded-retry"},
	{"KAFKA-15475", "a request is retried beyond the timeout that its user gave", step("max_attempts: 1000, backoff: 100ms, backoff_cap: 1s"), "unbounded-retry"},
	{"YARN-8710", "containers are restarted without end", step("max_attempts: 1000, backoff: 30s, backoff_cap: 30s"), "unbounded-retry"},
	{"Elasticsearch 85003", "a node whose join is refused by its own circuit breaker asks again at once", step("max_attempts: 1000"), "zero-delay"},
	{"Elasticsearch 102528", "a transform whose state cannot be stored tries again every minute, however long that has failed", step("max_attempts: 100, backoff: 1m, backoff_multiplier: 1, jitter: none"), "constant-delay"},
	{"HIVE-19642", "a thread that finds the LLAP cache full asks to evict again at once, and sleeps only after 4, 8, 16 … attempts", step("max_attempts: 1000"), "zero-delay"},
	{"Elasticsearch 79445", "a failed relocation of a shard is started again without end, because its failures are not counted", step("max_attempts: 1000, backoff: 1s"), "unbounded-retry"},
	{"Elasticsearch 25951", "RestClient may retry for 30 s, the wait in its queue included, which is as long as one request may take", "version: 1\npolicies: {p: {retry: {max_attempts: 3, backoff: 1s, timeout: 30s, overall_timeout: 30s}}}\n", "timeout-unreachable"},
	{"KAFKA-9314", "Connect polls a source again at once after a RetriableException, without the delays of errors.retry", step("max_attempts: 1000"), "zero-delay"},
	{"HBASE-8776", "clients of 0.94 give up after about a minute, and region servers take longer to recover; since the fix they retry for over five", step("max_attempts: 10, backoff: 1s, backoff_multiplier: 1.5, jitter: none") + outage("5m"), "outage-outlasts-retries"},
	{"HIVE-20761", "5 retries, one every 500 ms, give up before a slow operation leaves a row's lock; since the fix there are 10, one every 10 s", step("max_attempts: 6, backoff: 500ms, backoff_multiplier: 1, jitter: none") + outage("1m"), "outage-outlasts-retries"},
	{"SPARK-28163", "the number of retries and their interval are ignored if their names are written in another case", step("Max_Attempts: 3, Backoff: 1s"), "Max_Attempts: unknown field"},
	{"HDFS-15439", "a negative dfs.mover.retry.max.attempts retries without end", step("max_attempts: -1, backoff: 1s"), "max_attempts: -1 must be at least 1"},
}

func step(retry string) string {
	return "version: 1\nconsumers: {c: {steps: {process: {retry: {" + retry + "}}}}}\n"
}

// TestT1TheMendedSettingsOutlastTheOutages is about the two whose retries ended too early.
func TestT1TheMendedSettingsOutlastTheOutages(t *testing.T) {
	for _, text := range []string{
		step("max_attempts: 10, backoff: 1s, backoff_cap: 100s, jitter: none") + outage("5m"),
		step("max_attempts: 11, backoff: 10s, backoff_multiplier: 1, backoff_cap: 10s, jitter: none") + outage("1m"),
	} {
		if found := codes(prove.Violations(findings(t, text, ""))); slices.Contains(found, "outage-outlasts-retries") {
			t.Errorf("%s: found %v", text, found)
		}
	}
}

func outage(lasts string) string {
	return "prove: {outages: [{path: consumers.c.steps.process, lasts: " + lasts + "}]}\n"
}

func TestT1RetryBugsOfTheStudyAreFound(t *testing.T) {
	for _, bug := range study {
		d, err := policyfile.Parse(bug.issue, []byte(bug.text), policyfile.Options{})
		if err != nil {
			if !strings.Contains(err.Error(), bug.finding) {
				t.Errorf("%s: %v", bug.issue, err)
			}
			continue
		}
		list, err := prove.Document(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		if found := codes(prove.Violations(list)); !slices.Contains(found, bug.finding) {
			t.Errorf("%s (%s): found %v, not %s", bug.issue, bug.about, found, bug.finding)
		}
	}
}
