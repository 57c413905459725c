package policyfile

import (
	"testing"
	"time"

	"github.com/tenetdev/tenet/policy"
)

const categories = `
defaults: {steps: {category: API_REQUEST}}
queues:
  mail: {category: NATS_PUBLISH}
  own: {retry: {max_attempts: 9}}
jobs:
  send: {category: RETRY_KV_GET, retry: {timeout: null}}
  plain: {}
  none: {category: null}
consumers:
  orders:
    category: APPROVAL_CHECK
    steps: {fetch: {category: NATS_CONNECT}, success: {category: none}, exception: {retry: {max_attempts: 4, timeout: null}}}
  other: {}
producers:
  out: {category: KV_PUT, steps: {exception: {category: null}}}
`

func TestP12CategoriesComeFromTypeThenQueueAndFromStepThenEngine(t *testing.T) {
	d := accept(t, categories)
	type row struct {
		Category policy.Category
		Attempts int
		Timeout  time.Duration
	}
	for key, want := range map[policy.Key]row{
		policy.JobKey("", "send"):                   {policy.KVGet, 3, 0},
		policy.JobKey("mail", "send"):               {policy.KVGet, 3, 0},
		policy.JobKey("mail", "plain"):              {policy.NATSPublish, 3, 5 * time.Second},
		policy.JobKey("mail", "unnamed"):            {policy.NATSPublish, 3, 5 * time.Second},
		policy.JobKey("mail", "none"):               {"", 25, 0},
		policy.JobKey("own", "send"):                {policy.KVGet, 9, 0}, // the queue's entry wins over the catalog
		policy.JobKey("own", "plain"):               {"", 9, 0},
		policy.ConsumerKey("orders", "fetch"):       {policy.NATSConnect, 5, 10 * time.Second},
		policy.ConsumerKey("orders", "process"):     {policy.ApprovalCheck, 3, 5 * time.Second},
		policy.ConsumerKey("orders", "success"):     {"", 1, 0},
		policy.ConsumerKey("orders", "exception"):   {policy.ApprovalCheck, 4, 0},
		policy.ConsumerKey("other", "process"):      {policy.APIRequest, 3, 30 * time.Second},
		policy.ConsumerKey("undocumented", "fetch"): {policy.APIRequest, 3, 30 * time.Second},
		policy.ProducerKey("out", "produce"):        {policy.KVPut, 3, 5 * time.Second},
		policy.ProducerKey("out", "exception"):      {"", 1, 0},
	} {
		p := ask(t, d, key)
		if got := (row{p.Category, p.Retry.MaxAttempts, p.Retry.TimeoutPerAttempt}); got != want {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
}

func TestP12ConsumersAndProducersCarryTheCategoriesOfTheirSteps(t *testing.T) {
	d := accept(t, categories)
	c, _ := d.Set.Consumer("orders")
	p, _ := d.Set.Producer("out")
	again, err := c.Normalize(policy.StepLimits())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []policy.Consumer{c, again} {
		s := c.Steps
		if c.Category != policy.ApprovalCheck || s.Fetch.Category != policy.NATSConnect || s.Process.Category != policy.ApprovalCheck || s.Success.Category != "" {
			t.Errorf("%+v", c)
		}
		if s.Process.Retry.TimeoutPerAttempt != 5*time.Second || s.Exception.Retry.TimeoutPerAttempt != 0 || s.Success.Retry.MaxAttempts != 1 {
			t.Errorf("the catalog fills fields that the document sets to none, or no field: %+v", s)
		}
	}
	if s := p.Steps; p.Category != policy.KVPut || s.Produce.Category != policy.KVPut || s.Exception.Category != "" {
		t.Errorf("%+v", p)
	}
	if path, line := d.Origin(policy.ConsumerKey("orders", "process"), "category"); path != "consumers.orders.category" || line == 0 {
		t.Errorf("the category comes from %s, line %d", path, line)
	}
}

func TestP11ACategoryIsAcceptedByNameAndByCode(t *testing.T) {
	name := accept(t, "policies: {a: {category: KV_GET}}\n")
	code := accept(t, "policies: {a: {category: RETRY_KV_GET}}\n")
	if name.Set.Revision() != code.Set.Revision() || ask(t, code, policy.ParseKey("a")).Category != policy.KVGet {
		t.Error("a code is not the same as its name")
	}
	for path, text := range map[string]string{
		"policies.a.category": "version: 1\npolicies: {a: {category: RETRY_RETRY_KV_GET}}\n",
		"jobs.a.category":     "version: 1\njobs: {a: {category: LAUNCH}}\n",
	} {
		if faults := refuse(t, text); len(faults) != 1 || faults[0].Path != path {
			t.Errorf("%s: %v", text, faults)
		}
	}
}

func TestFindNamesTypesQueuesAndSteps(t *testing.T) {
	d := accept(t, categories+"policies: {other: {}}\n")
	for name, want := range map[string]policy.Key{
		"send": policy.JobKey("", "send"), "mail": policy.JobKey("mail", ""), "orders": policy.ConsumerKey("orders", "process"),
		"out": policy.ProducerKey("out", "produce"), "orders.fetch": policy.ConsumerKey("orders", "fetch"),
		"out.exception": policy.ProducerKey("out", "exception"), "other": {Name: "other"}, "unknown.thing": {Namespace: "unknown", Name: "thing"},
	} {
		if got := d.Set.Find(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
