package job_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/job"
)

func TestJ20AFlowThatIsNotAGraphIsRefusedByName(t *testing.T) {
	node := func(name string, needs ...string) job.FlowJob {
		return job.FlowJob{Node: name, Needs: needs, Request: job.Request{Type: "t"}}
	}
	unique := node("a")
	unique.UniqueKey = "k"
	unknown := node("a")
	unknown.OnFailure = "stop"
	for want, list := range map[string][]job.FlowJob{
		`node "a": it needs itself: a needs c needs b needs a`:                        {node("a", "c"), node("b", "a"), node("c", "b"), node("d", "a")},
		`node "a": it needs itself: a needs a`:                                        {node("a", "a")},
		`node "b": it needs "aa", which is not a node of the flow; did you mean "a"?`: {node("a"), node("b", "aa")},
		`node "a": another job of the flow has this name`:                             {node("a"), node("a")},
		`node: missing`:                     {node("")},
		`it has no jobs`:                    nil,
		`unique_key: not allowed in a flow`: {unique},
		`on_failure: "stop" does not exist; write cancel, run or hold`: {unknown},
	} {
		_, err := (&job.Flow{Jobs: list}).Inserts()
		if _, ok := errors.AsType[*job.FlowError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestJ20ChainsAndGroupsNeedWhatComesBefore(t *testing.T) {
	node := func(name string) job.FlowJob { return job.FlowJob{Node: name, Request: job.Request{Type: "t"}} }
	var f job.Flow
	first := f.Chain(nil, node("a"), node("b"))
	group := f.Group(first, node("c"), node("d"))
	f.Chain(group, node("e"))
	n, err := f.Inserts()
	if err != nil || n.Layers != 4 || n.ID == "" {
		t.Fatalf("%+v, %v", n, err)
	}
	for i, want := range [][]int32{nil, {1}, {2}, {2}, {3, 4}} {
		got := n.Jobs[i].Needs
		if len(got) != len(want) || len(want) > 0 && (got[0] != want[0] || got[len(got)-1] != want[len(want)-1]) {
			t.Errorf("%s needs %v, want %v", n.Jobs[i].Node, got, want)
		}
	}
}
