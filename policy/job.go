package policy

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Job governs the jobs of one type. Fields that it does not set are taken from the job's
// queue, then from the defaults of jobs.
type Job struct {
	// Category takes defaults from the catalog of operation categories and marks what the jobs record. Default: the queue's.
	Category Category `json:"category" check:"null"`
	// Timeout bounds a single attempt, in seconds; the same as retry.timeout. Default none.
	Timeout time.Duration `json:"timeout" check:"positive,null"`
	// Retry bounds repetition.
	Retry Retry `json:"retry"`
	// Circuit is a breaker that stops jobs after repeated failures.
	Circuit Circuit `json:"circuit" check:"null"`
	// Budget is asked before every attempt; the same as retry.budget. Default none.
	Budget BudgetRef `json:"budget" check:"null"`
	// Limits bound the jobs over all workers of the store.
	Limits []JobLimit `json:"limits"`
}

// Queue governs the jobs of one queue.
type Queue struct {
	// Category of the queue's jobs whose type does not set one.
	Category Category `json:"category" check:"null"`
	// Concurrency is how many of the queue's jobs one worker runs at a time. Default: the worker's own.
	Concurrency int `json:"concurrency" check:"min=1"`
	// Timeout bounds a single attempt, in seconds; the same as retry.timeout. Default none.
	Timeout time.Duration `json:"timeout" check:"positive,null"`
	// Retry bounds repetition.
	Retry Retry `json:"retry"`
	// Circuit is a breaker that stops jobs after repeated failures.
	Circuit Circuit `json:"circuit" check:"null"`
	// Budget is asked before every attempt; the same as retry.budget. Default none.
	Budget BudgetRef `json:"budget" check:"null"`
	// Limits bound the jobs over all workers of the store.
	Limits []JobLimit `json:"limits"`
	// Codec compresses and encrypts the payloads and outputs of the queue's jobs. Default: neither.
	Codec Codec `json:"codec" check:"null"`
}

// Codec says how the payloads and outputs of a queue's jobs are stored.
type Codec struct {
	// CompressAbove compresses texts of more bytes than this with zstd. Default: never.
	CompressAbove int `json:"compress_above" check:"min=1,max=67108864"`
	// Encrypt encrypts every text with the first of the keys that clients and workers have. Default: false.
	Encrypt bool `json:"encrypt"`
}

// Policy returns the job's policy under key k.
func (j Job) Policy(k Key) Policy {
	p := Policy{Key: k, Category: j.Category, Retry: j.Retry, Circuit: j.Circuit}
	if j.Timeout != 0 {
		p.Retry.TimeoutPerAttempt = j.Timeout
	}
	if j.Budget.Name != "" {
		p.Retry.Budget = j.Budget
	}
	return p
}

// Validate is the strict reading: a *ValidationError with every violation, or nil.
func (j Job) Validate(l Limits) error { return violations(j.Check(l)).err() }

// Check is Validate with warnings.
func (j Job) Check(l Limits) []Violation {
	var v violations
	v.ranges("", reflect.ValueOf(j))
	v.job(j, l)
	return v
}

// Validate is the strict reading: a *ValidationError with every violation, or nil.
func (q Queue) Validate(l Limits) error { return violations(q.Check(l)).err() }

// Check is Validate with warnings.
func (q Queue) Check(l Limits) []Violation {
	var v violations
	v.ranges("", reflect.ValueOf(q))
	v.job(Job{Timeout: q.Timeout, Retry: q.Retry, Circuit: q.Circuit, Budget: q.Budget, Limits: q.Limits}, l)
	v.codec(q)
	return v
}

// codec checks that a queue's limits do not need what its codec hides from the store.
func (v *violations) codec(q Queue) {
	if q.Codec == (Codec{}) {
		return
	}
	for i, l := range q.Limits {
		for k, field := range l.Key {
			if strings.HasPrefix(field, "payload.") {
				v.add(fmt.Sprintf("limits[%d].key[%d]", i, k), fmt.Sprintf("the store cannot read %s, because the queue has a codec", field), "put the value into the metadata and write meta.NAME")
			}
		}
	}
}

func (v *violations) job(j Job, l Limits) {
	if j.Timeout != 0 && j.Retry.TimeoutPerAttempt != 0 {
		v.add("timeout", "given twice, here and as retry.timeout", "keep one of the two")
	}
	if j.Budget.Name != "" && j.Retry.Budget.Name != "" {
		v.add("budget", "given twice, here and as retry.budget", "keep one of the two")
	}
	if j.Budget.Name == "" && j.Budget.Cost != 0 {
		v.add("budget.name", "missing", "name a budget")
	}
	v.retry("retry", j.Retry, l)
	if (j.Circuit != Circuit{} && j.Circuit.Kind == "") {
		v.add("circuit.kind", "missing", "write consecutive, rate or slow, or remove the circuit")
	}
	v.jobLimits(j.Limits)
}

// Validate is the strict reading: a *ValidationError with every violation, or nil.
func (b Budget) Validate() error { return violations(b.Check()).err() }

// Check lists the budget's violations.
func (b Budget) Check() []Violation {
	var v violations
	v.ranges("", reflect.ValueOf(b))
	switch b.Kind {
	case "":
		v.add("kind", "missing", "write unlimited, token_bucket or retry_ratio")
	case BudgetTokenBucket:
		if b.Capacity == 0 {
			v.add("capacity", "missing", "say how many tokens the bucket holds")
		}
		if b.RefillPerSecond == 0 {
			v.add("refill_per_second", "missing", "say how many tokens come back per second")
		}
	}
	if b.Scope == ScopeShared && b.Kind == BudgetUnlimited {
		v.add("scope", "an unlimited budget has nothing to share", "remove scope, or write kind: token_bucket or retry_ratio")
	}
	if b.Kind != BudgetTokenBucket && (b.Capacity != 0 || b.RefillPerSecond != 0) {
		v.add("kind", "capacity and refill_per_second belong to token_bucket", "change the kind or remove them")
	}
	if b.Kind != BudgetRetryRatio && (b.Ratio != 0 || b.Burst != 0) {
		v.add("kind", "ratio and burst belong to retry_ratio", "change the kind or remove them")
	}
	return v
}

// Normalize returns the budget with its defaults: ratio 0.2, burst 10, cost 1.
func (b Budget) Normalize() Budget {
	if b.Kind == BudgetRetryRatio {
		if !(b.Ratio > 0) {
			b.Ratio = 0.2
		}
		if !(b.Burst > 0) {
			b.Burst = 10
		}
	}
	return b
}
