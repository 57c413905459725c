package policy

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func compiled(t *testing.T, p Policy) *Policy {
	t.Helper()
	c, err := Compile(p, LimitsFor(p.Key.Surface()), SourceFile)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func testSet(t *testing.T) *Set {
	t.Helper()
	policies := map[Key]*Policy{}
	for i, key := range []Key{ParseKey("a.B"), JobKey("q", "t"), JobKey("q", ""), JobKey("", "t"), ConsumerKey("c", "fetch")} {
		policies[key] = compiled(t, Policy{Key: key, Retry: Retry{MaxAttempts: i + 1}})
	}
	return NewSet(SetConfig{
		Source: SourceFile, Revision: "r1", Policies: policies,
		Jobs:      compiled(t, Policy{Key: JobKey("", ""), Retry: Retry{MaxAttempts: 9}}),
		Budgets:   map[string]Budget{"b": {Kind: BudgetUnlimited}},
		Queues:    map[string]Queue{"q": {Concurrency: 2}},
		Consumers: map[string]Consumer{"c": {Loop: ConsumerLoop{Limit: 3}}},
		Producers: map[string]Producer{"p": {Loop: ProducerLoop{Limit: 4}}},
	})
}

func TestP12SetsFindTheMostSpecificPolicy(t *testing.T) {
	set := testSet(t)
	for key, want := range map[Key]struct {
		attempts int
		named    bool
	}{
		ParseKey("a.B"):             {1, true},
		JobKey("q", "t"):            {2, true},
		JobKey("q", "other"):        {3, true},
		JobKey("other", "t"):        {4, true},
		JobKey("other", "other"):    {9, false},
		ConsumerKey("c", "fetch"):   {5, true},
		ConsumerKey("c", "process"): {1, false},
		ParseKey("x.Y"):             {3, false},
	} {
		p, err := set.Policy(context.Background(), key)
		if err != nil || p.Key != key || p.Retry.MaxAttempts != want.attempts || !p.Compiled() || set.Named(key) != want.named {
			t.Errorf("%s: %+v %v, named %v", key, p, err, set.Named(key))
		}
	}
	known, _ := set.Policy(context.Background(), ParseKey("a.B"))
	again, _ := set.Policy(context.Background(), ParseKey("a.B"))
	if known != again {
		t.Error("a named policy was copied")
	}
	steps := compiled(t, Policy{Key: ConsumerKey("", ""), Retry: Retry{MaxAttempts: 8}})
	calls := compiled(t, Policy{Retry: Retry{MaxAttempts: 7}})
	other := NewSet(SetConfig{Calls: calls, Steps: steps})
	for key, attempts := range map[Key]int{ParseKey("x.Y"): 7, ProducerKey("p", "produce"): 8, JobKey("q", "t"): 25} {
		if p, err := other.Policy(context.Background(), key); err != nil || p.Retry.MaxAttempts != attempts || p.Key != key {
			t.Errorf("%s: %+v %v", key, p, err)
		}
	}
}

func TestP1SetsReturnCopies(t *testing.T) {
	set := testSet(t)
	set.Budgets()["b"] = Budget{}
	set.Queues()["q"] = Queue{}
	if set.Budgets()["b"].Kind != BudgetUnlimited || set.Queues()["q"].Concurrency != 2 {
		t.Error("a caller changed the set")
	}
	consumer, ok := set.Consumer("c")
	producer, ok2 := set.Producer("p")
	if _, found := set.Consumer("p"); !ok || !ok2 || found || consumer.Loop.Limit != 3 || producer.Loop.Limit != 4 {
		t.Errorf("%+v %+v", consumer, producer)
	}
}

func TestSetsDescribeThemselves(t *testing.T) {
	set := testSet(t)
	var provider Provider = set
	if provider.(Versioned).Version() == 0 || provider.(SetProvider).Set() != set || set.Source() != SourceFile || set.Revision() != "r1" {
		t.Errorf("%+v", set)
	}
	want := []Key{ParseKey("a.B"), ConsumerKey("c", "fetch"), JobKey("", "t"), JobKey("q", ""), JobKey("q", "t")}
	if diff := cmp.Diff(want, set.Keys()); diff != "" {
		t.Error(diff)
	}
	if set.CallLimits().Attempts.Max != 10 {
		t.Errorf("%+v", set.CallLimits())
	}
	tight, _ := CallLimits().Tighten(Tightening{MaxAttempts: 2})
	if NewSet(SetConfig{CallLimits: tight}).CallLimits().Attempts.Max != 2 {
		t.Error("the document's limits are lost")
	}
}

func TestIsZero(t *testing.T) {
	if !(Policy{Key: ParseKey("a"), Meta: Meta{Source: SourceFile}}).IsZero() {
		t.Error("an empty policy is not zero")
	}
	full := filled[Policy](t)
	for _, p := range []Policy{{ID: "x"}, {Category: KVGet}, {Retry: full.Retry}, {Hedge: full.Hedge}, {Circuit: full.Circuit}, {Retry: Retry{RetryOn: []Class{"a"}}}} {
		if p.IsZero() {
			t.Errorf("%+v is zero", p)
		}
	}
}

// TestP2FindAcceptsWrittenNames finds calls, job types, queues, consumers, producers and their steps by name.
func TestP2FindAcceptsWrittenNames(t *testing.T) {
	policies := map[Key]*Policy{}
	for _, k := range []Key{
		{"svc", "Get"}, {Name: "both"}, JobKey("", "both"), JobKey("", "mail.send"), JobKey("eu", ""), ConsumerKey("orders.v2", "process"),
		ConsumerKey("orders.v2", "fetch"), ProducerKey("export", "produce"), ProducerKey("export", "exception"),
	} {
		policies[k] = &Policy{Key: k}
	}
	s := NewSet(SetConfig{Policies: policies})
	for name, want := range map[string]Key{
		"svc.Get": {"svc", "Get"}, "both": {Name: "both"}, "job/eu.mail.send": JobKey("eu", "mail.send"), "mail.send": JobKey("", "mail.send"),
		"eu": JobKey("eu", ""), "orders.v2": ConsumerKey("orders.v2", "process"), "orders.v2.fetch": ConsumerKey("orders.v2", "fetch"),
		"export": ProducerKey("export", "produce"), " export.exception ": ProducerKey("export", "exception"),
		"unknown": {Name: "unknown"}, "orders.v2.success": {"orders", "v2.success"}, "": {},
	} {
		if got := s.Find(name); got != want {
			t.Errorf("%q is %+v, want %+v", name, got, want)
		}
	}
}

// TestP2NamesWithDotsFindTheirKeys checks that the set splits names at the right dot.
func TestP2NamesWithDotsFindTheirKeys(t *testing.T) {
	policies := map[Key]*Policy{}
	for _, k := range []Key{{"svc", "Get.All"}, JobKey("", "mail.send"), JobKey("", "send"), JobKey("eu", ""), JobKey("eu.west", ""), JobKey("us.east", "a.b")} {
		policies[k] = &Policy{Key: k}
	}
	s := NewSet(SetConfig{Policies: policies})
	for name, want := range map[string]Key{
		"svc.Get.All": {"svc", "Get.All"}, "plain": {Name: "plain"}, "": {}, " svc.x ": {"svc", "x"},
		"consumer/a.b.process": ConsumerKey("a.b", "process"), "producer/p.produce": ProducerKey("p", "produce"),
		"job/default.other": JobKey("default", "other"), "job/.send": JobKey("", "send"),
		"job/us.east.a.b": JobKey("us.east", "a.b"), "job/eu.west.": JobKey("eu.west", ""),
		"job/some.where.mail.send": JobKey("some.where", "mail.send"), "job/some.where.send": JobKey("some.where", "send"),
		"job/eu.west.x.y": JobKey("eu.west", "x.y"), "job/eu.north.x": JobKey("eu", "north.x"), "job/eu.west.send": JobKey("eu.west", "send"),
	} {
		got := s.KeyNamed(name)
		if got != want {
			t.Errorf("%q is %+v", name, got)
		}
		if got.String() != strings.TrimSpace(name) {
			t.Errorf("%q became %q", name, got)
		}
	}
}
