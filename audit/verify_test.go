package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/audit"
)

func verify(t testing.TB, s audit.Source, heads ...audit.Head) *audit.VerifyReport {
	t.Helper()
	r, err := audit.Verify(context.Background(), s, audit.VerifyOptions{Heads: heads})
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{1, 3, 50}
	if r.Lines > 300 {
		sizes = []int{997}
	}
	for _, size := range sizes { // a verification in parts gives the same result
		if diff := cmp.Diff(written(t, r), written(t, verifyInParts(t, s, audit.VerifyOptions{Heads: heads}, size))); diff != "" {
			t.Errorf("in parts of %d lines: %s", size, diff)
		}
	}
	return r
}

// written returns a report as JSON, in which IDs of damaged lines are valid UTF-8.
func written(t testing.TB, r *audit.VerifyReport) string {
	t.Helper()
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// verifyInParts verifies a log in parts of some lines, each with the state that the one before returned.
func verifyInParts(t testing.TB, s audit.Source, o audit.VerifyOptions, size int) *audit.VerifyReport {
	t.Helper()
	v, err := audit.NewVerification(o)
	for err == nil {
		var ended bool
		if ended, err = v.Continue(context.Background(), s, audit.Bounds{Lines: size}); err != nil {
			break
		}
		var state []byte
		if state, err = v.State(); err != nil {
			break
		}
		if v, err = audit.ResumeVerification(state); err == nil && ended {
			return v.Report()
		}
	}
	t.Fatal(err)
	return nil
}

func TestA3WholeLogIsIntact(t *testing.T) {
	log := plain(t, "a", 0, 3000)
	r := verify(t, log)
	if !r.Intact() || r.Events != 3000 || r.Lines != 3000 || r.Duplicates != 0 {
		t.Errorf("report %+v", r)
	}
	if r.TailVerified {
		t.Error("without a head the tail counts as verified")
	}
	want := []audit.ChainReport{{ChainID: "a", Events: 3000, Head: headOf(t, log)}}
	if diff := cmp.Diff(want, r.Chains); diff != "" {
		t.Error(diff)
	}
	if r := verify(t, lines{}); !r.Intact() || r.TailVerified {
		t.Errorf("empty log: %+v", r)
	}
}

func TestA3HeadVerifiesTheTail(t *testing.T) {
	log := plain(t, "a", 0, 20)
	head := headOf(t, log)
	for name, h := range map[string]audit.Head{"full": head, "hash only": {Hash: head.Hash}} {
		if r := verify(t, log, h); !r.Intact() || !r.TailVerified || r.Chains[0].VerifiedTo != 20 {
			t.Errorf("%s: %+v", name, r)
		}
		r := verify(t, log[:17], h)
		want := []audit.Fault{{Index: 17, ChainID: "a", Seq: 18, Kind: audit.FaultTruncated}}
		if diff := cmp.Diff(want, r.Faults); diff != "" || r.TailVerified {
			t.Errorf("%s: %v %s", name, r.TailVerified, diff)
		}
	}
	if r := verify(t, append(log, plain(t, "b", 100, 5)...), head); !r.Intact() || r.TailVerified {
		t.Errorf("another chain has no head: %+v", r)
	}
	if r := verify(t, plain(t, "b", 0, 5), head); len(r.Faults) != 1 || r.Faults[0].ChainID != "a" || r.Faults[0].Kind != audit.FaultTruncated {
		t.Errorf("the whole chain is missing: %+v", r)
	}
	if _, err := audit.Verify(context.Background(), log, audit.VerifyOptions{Heads: []audit.Head{{Hash: "abc"}}}); err == nil {
		t.Error("a bad hash is accepted")
	}
}

func TestA3AHashAloneGivesTheVerdictOfACompleteHead(t *testing.T) {
	for name, tamper := range map[string]func(l lines) lines{
		"changed": func(l lines) lines {
			return append(l[:19], bytes.Replace(l[19], []byte(`"timestamp":"2`), []byte(`"timestamp":"1`), 1))
		},
		"not an event":        func(l lines) lines { return append(l[:19], []byte("rubbish")) },
		"cut off":             func(l lines) lines { return l[:17] },
		"cut off and changed": func(l lines) lines { l[5] = []byte("rubbish"); return l[:19] },
	} {
		for others, alone := range map[string]lines{"one chain": nil, "two chains": plain(t, "b", 100, 5)} {
			log := plain(t, "a", 0, 20)
			head := headOf(t, log)
			log = append(slices.Clone(alone), tamper(log)...)
			whole, hash := verify(t, log, head).Faults, verify(t, log, audit.Head{Hash: head.Hash}).Faults
			for i := range hash {
				if i < len(whole) && hash[i].Kind == audit.FaultTruncated && alone != nil { // the hash does not name its chain
					hash[i].ChainID, hash[i].Seq = whole[i].ChainID, whole[i].Seq
				}
			}
			if diff := cmp.Diff(whole, hash); diff != "" || len(whole) == 0 {
				t.Errorf("%s, %s: head %v, hash alone:%s", name, others, whole, diff)
			}
		}
	}
}

// TestA3AHashAloneIsLocatedByItsSuccessorOrHead: a later event or another head gives the position of an event that is known only by its
// hash.
func TestA3AHashAloneIsLocatedByItsSuccessorOrHead(t *testing.T) {
	log := plain(t, "a", 0, 30)
	opened := chained(t, "b", []audit.Event{{ID: eventID(500), Type: audit.ChainOpened, Time: begin, Heads: []audit.Head{headOf(t, log)}}})
	forged := parsed(t, log[14])
	forged.Reason = "forged"
	for name, c := range map[string]struct {
		log  lines
		head audit.Head
	}{
		"rewritten before a later event": {append(append(log[:14].clone(), sealed(t, &forged)), log[15:]...), headOf(t, log[:15])},
		"damaged before a later event":   {append(append(log[:14].clone(), []byte("rubbish")), log[15:]...), headOf(t, log[:15])},
		"removed before a later event":   {slices.Delete(log.clone(), 14, 15), headOf(t, log[:15])},
		"whole chain rewritten":          {append(plain(t, "a", 1000, 30), opened...), headOf(t, log)},
		"cut off before the opening":     {append(log[:25].clone(), opened...), headOf(t, log)},
	} {
		whole, hash := verify(t, c.log, c.head).Faults, verify(t, c.log, audit.Head{Hash: c.head.Hash}).Faults
		if diff := cmp.Diff(whole, hash); diff != "" || len(whole) == 0 {
			t.Errorf("%s: head %v, hash alone:%s", name, whole, diff)
		}
	}
	rewritten := plain(t, "a", 1000, 30)
	hash := audit.Head{Hash: headOf(t, log).Hash}
	if r := verify(t, rewritten, hash); len(r.Faults) != 1 || r.Faults[0].Kind != audit.FaultTruncated {
		t.Errorf("the event's position is unknown: %v", r.Faults)
	}
	if r := verify(t, rewritten, hash, headOf(t, log)); len(r.Faults) != 1 || r.Faults[0].Kind != audit.FaultChanged {
		t.Errorf("a complete head and the hash: %v", r.Faults)
	}
}

// TestA3AForgedSuccessorDoesNotReplaceAHead checks that a forged line that names the missing head as its predecessor does not
// hide a truncated log.
func TestA3AForgedSuccessorDoesNotReplaceAHead(t *testing.T) {
	log := plain(t, "a", 0, 30)
	head := headOf(t, log)
	for _, seq := range []uint64{1, 5, 26, 31} {
		e := parsed(t, log[3])
		e.ID, e.Seq, e.PrevHash = eventID(999), seq, head.Hash
		for name, o := range map[string]audit.VerifyOptions{
			"whole log": {Heads: []audit.Head{{Hash: head.Hash}}},
			"part":      {Heads: []audit.Head{{Hash: head.Hash}}, After: []audit.Head{headOf(t, log[:20])}},
		} {
			part := log[:25].clone()
			if name == "part" {
				part = log[20:25].clone()
			}
			for _, chain := range []string{"a", "z"} {
				e.ChainID = chain
				if r, err := audit.Verify(context.Background(), append(part.clone(), sealed(t, &e)), o); err != nil || r.Intact() {
					t.Errorf("%s, line of chain %s at %d: %+v, %v", name, chain, seq, r, err)
				}
			}
		}
	}
}

// tamperings change a chain of events at position k, which is neither the first nor one of the last two.
var tamperings = map[string]struct {
	kind audit.FaultKind
	do   func(t testing.TB, l lines, k int) lines
	at   int // offset of the first bad event from k
}{
	"removed": {audit.FaultMissing, func(_ testing.TB, l lines, k int) lines { return slices.Delete(l, k, k+1) }, 0},
	"swapped": {audit.FaultOrder, func(_ testing.TB, l lines, k int) lines {
		l[k], l[k+1] = l[k+1], l[k]
		return l
	}, 0},
	"inserted without a place": {audit.FaultInserted, func(t testing.TB, l lines, k int) lines {
		e := parsed(t, l[k])
		e.ID = eventID(999_999)
		line := sealed(t, &e)
		line[len(line)-5]++
		return slices.Insert(l, k, line)
	}, 0},
	"inserted before its duplicate": {audit.FaultInserted, func(t testing.TB, l lines, k int) lines {
		e := parsed(t, l[k])
		e.ID = eventID(999_999)
		return slices.Insert(l, k, sealed(t, &e))
	}, 0},
	"inserted after its duplicate": {audit.FaultInserted, func(t testing.TB, l lines, k int) lines {
		e := parsed(t, l[k])
		e.ID = eventID(999_999)
		return slices.Insert(l, k+1, sealed(t, &e))
	}, 1},
	"inserted rubbish": {audit.FaultInserted, func(_ testing.TB, l lines, k int) lines {
		return slices.Insert(l, k, []byte("{}"))
	}, 0},
	"edited, hash recomputed": {audit.FaultChanged, func(t testing.TB, l lines, k int) lines {
		e := parsed(t, l[k])
		e.Reason = "forged"
		l[k] = sealed(t, &e)
		return l
	}, 0},
	"reformatted": {audit.FaultChanged, func(_ testing.TB, l lines, k int) lines {
		l[k] = append([]byte("{ "), l[k][1:]...)
		return l
	}, 0},
	"emptied": {audit.FaultChanged, func(_ testing.TB, l lines, k int) lines {
		l[k] = nil
		return l
	}, 0},
}

func TestA3FirstBadEventIsNamed(t *testing.T) {
	for name, c := range tamperings {
		t.Run(name, func(t *testing.T) {
			const k = 7
			log := c.do(t, plain(t, "a", 0, 20), k)
			r := verify(t, log)
			if len(r.Faults) != 1 {
				t.Fatalf("faults %v", r.Faults)
			}
			f := r.Faults[0]
			if f.Index != k+c.at || f.Kind != c.kind {
				t.Errorf("fault %v, want %s at %d", f, c.kind, k+c.at)
			}
			if e, err := audit.ParseLine(log[f.Index]); err == nil && name != "reformatted" && e.ID != f.EventID {
				t.Errorf("event %s named, but %s is there", f.EventID, e.ID)
			}
		})
	}
}

// TestA3EveryByteCounts checks that any changed byte is found and does not affect the report of other events.
func TestA3EveryByteCounts(t *testing.T) {
	log := plain(t, "a", 0, 6)
	const k = 3
	for at := range log[k] {
		for _, flip := range []byte{1, 0x20} {
			changed := log.clone()
			changed[k][at] ^= flip
			r := verify(t, changed)
			if len(r.Faults) != 1 || r.Faults[0].Index != k || r.Faults[0].Kind != audit.FaultChanged {
				t.Fatalf("byte %d, %q for %q: %v", at, changed[k][at], log[k][at], r.Faults)
			}
		}
	}
}

func TestA3FirstAndLastEvents(t *testing.T) {
	log := plain(t, "a", 0, 5)
	head := headOf(t, log)
	if r := verify(t, log[1:]); len(r.Faults) != 1 || r.Faults[0].Kind != audit.FaultMissing || r.Faults[0].Index != 0 || r.Faults[0].Seq != 1 {
		t.Errorf("first removed: %v", r.Faults)
	}
	changed := log.clone()
	e := parsed(t, log[4])
	e.Reason = "forged"
	changed[4] = sealed(t, &e)
	if r := verify(t, changed, head); len(r.Faults) != 1 || r.Faults[0].Kind != audit.FaultChanged || r.Faults[0].Index != 4 {
		t.Errorf("last edited, hash recomputed: %v", r.Faults)
	}
	for name, twin := range map[string]lines{"before": slices.Insert(log.clone(), 4, changed[4]), "after": append(log.clone(), changed[4])} {
		r := verify(t, twin, head)
		want := map[string]int{"before": 4, "after": 5}[name]
		if len(r.Faults) != 1 || r.Faults[0].Kind != audit.FaultInserted || r.Faults[0].Index != want {
			t.Errorf("inserted %s the last: %v", name, r.Faults)
		}
	}
	damaged := log.clone()
	damaged[4] = damaged[4][:100]
	if r := verify(t, damaged, head); len(r.Faults) != 1 || r.Faults[0].Kind != audit.FaultChanged || r.Faults[0].Index != 4 {
		t.Errorf("last damaged: %v", r.Faults)
	}
}

func TestA3FaultsOfSeveralKinds(t *testing.T) {
	log := plain(t, "a", 0, 40)
	log[30][50] ^= 1
	log[10][50] ^= 1
	log[20], log[21] = log[21], log[20]
	log = slices.Delete(log, 15, 16)
	r := verify(t, log)
	want := []audit.Fault{
		{Index: 10, ChainID: "a", Seq: 11, Kind: audit.FaultChanged},
		{Index: 15, ChainID: "a", Seq: 16, Kind: audit.FaultMissing},
		{Index: 19, ChainID: "a", Seq: 22, Kind: audit.FaultOrder},
	}
	for i := range r.Faults {
		r.Faults[i].EventID = ""
	}
	if diff := cmp.Diff(want, r.Faults); diff != "" {
		t.Error(diff)
	}
}

func TestA2RepeatedDeliveryIsDropped(t *testing.T) {
	log := plain(t, "a", 0, 2000)
	cases := map[string]struct {
		log       lines
		repeated  int
		inserted  bool
		uncovered bool
	}{
		"a line":                           {log: slices.Insert(log.clone(), 100, log[99]), repeated: 1},
		"a batch":                          {log: slices.Insert(log.clone(), 100, log[50:100]...), repeated: 50},
		"the last line":                    {log: append(log.clone(), log[1999]), repeated: 1},
		"the first line":                   {log: slices.Insert(log.clone(), 1, log[0]), repeated: 1},
		"all from the start":               {log: append(log.clone(), log...), repeated: 2000},
		"an old batch without a successor": {log: slices.Insert(log.clone(), 1600, log[10:20]...), inserted: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := verify(t, c.log)
			if r.Intact() == c.inserted || r.Duplicates != c.repeated || r.Events != 2000 {
				t.Errorf("%d duplicates, %d events, %v", r.Duplicates, r.Events, r.Faults)
			}
		})
	}
}

func TestA3ChainsAreIndependent(t *testing.T) {
	a, b := plain(t, "a", 0, 50), plain(t, "b", 100, 50)
	var log lines
	for i := range a {
		log = append(log, a[i], b[i])
	}
	if r := verify(t, log); !r.Intact() || len(r.Chains) != 2 {
		t.Errorf("interleaved: %+v", r)
	}
	log[41][60] ^= 1 // of b
	if r := verify(t, log, headOf(t, a), headOf(t, b)); len(r.Faults) != 1 || r.Faults[0].Index != 41 {
		t.Errorf("changed: %v", r.Faults)
	}
}

func TestA3PartOfALogIsVerifiedAfterAHead(t *testing.T) {
	log := plain(t, "a", 0, 30)
	after := audit.VerifyOptions{After: []audit.Head{headOf(t, log[:20])}, Heads: []audit.Head{headOf(t, log)}}
	r, err := audit.Verify(context.Background(), log[20:], after)
	if err != nil || !r.Intact() || !r.TailVerified || r.Events != 10 {
		t.Errorf("%+v, %v", r, err)
	}
	for name, part := range map[string]lines{"first removed": log[21:], "one repeated": log[19:]} {
		r, err := audit.Verify(context.Background(), part, after)
		if err != nil || r.Intact() != (name == "one repeated") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if r, err := audit.Verify(context.Background(), log[20:], audit.VerifyOptions{After: after.After, Heads: after.After}); err != nil || r.TailVerified {
		t.Errorf("the tail is not verified: %+v, %v", r, err)
	}
	opened := chained(t, "b", []audit.Event{{ID: eventID(900), Type: audit.ChainOpened, Time: begin, Heads: after.Heads}})
	for hash, want := range map[string]bool{after.Heads[0].Hash: true, headOf(t, opened).Hash: false} {
		before := audit.Head{ChainID: "a", Seq: 30, Hash: hash}
		r, err := audit.Verify(context.Background(), opened, audit.VerifyOptions{After: []audit.Head{before}, Heads: []audit.Head{headOf(t, opened)}})
		if err != nil || r.Intact() != want || r.TailVerified != want {
			t.Errorf("a chain opened after others: %+v, %v", r, err)
		}
	}
	after.After[0].Hash = headOf(t, log[:19]).Hash
	if r, err := audit.Verify(context.Background(), log[20:], after); err != nil || len(r.Faults) != 1 || r.Faults[0].Index != 0 {
		t.Errorf("another head: %+v, %v", r, err)
	}
	if _, err := audit.Verify(context.Background(), log, audit.VerifyOptions{After: []audit.Head{{Hash: after.After[0].Hash}}}); err == nil {
		t.Error("a head without a chain is accepted")
	}
}

// TestA3LinesBeforeAHeadLeadUpToIt: lines that After covers are duplicates only if they are the events that it covers.
func TestA3LinesBeforeAHeadLeadUpToIt(t *testing.T) {
	log := plain(t, "a", 0, 30)
	forged := plain(t, "a", 500, 20) // other events in the same places
	replaced := log.clone()
	replaced[10] = forged[10]
	for name, c := range map[string]struct {
		log    lines
		intact bool
	}{
		"whole":                {log, true},
		"from the middle":      {log[12:], true},
		"a batch again":        {append(log[20:25].clone(), append(log[15:20].clone(), log[25:]...)...), true},
		"one replaced":         {replaced, false},
		"one removed":          {append(log[:10].clone(), log[11:]...), false},
		"the last one removed": {append(log[:19].clone(), log[20:]...), false},
		"the last one forged":  {append(lines{forged[19]}, log[20:]...), false},
		"one inserted":         {append(log[20:22].clone(), append(lines{forged[4]}, log[22:]...)...), false},
	} {
		r, err := audit.Verify(context.Background(), c.log, audit.VerifyOptions{After: []audit.Head{headOf(t, log[:20])}})
		if err != nil || r.Intact() != c.intact || r.Events != 10 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestA3ManyChains: events of chains that were written to long ago are not kept, and their last one is still known.
func TestA3ManyChains(t *testing.T) {
	var log lines
	var heads []audit.Head
	var first lines
	for i := range 300 {
		c := plain(t, fmt.Sprint("chain", i), 10*i, 10)
		if i == 0 {
			first = c
		}
		log, heads = append(log, c...), append(heads, headOf(t, c))
	}
	log = append(log, first[5:]...) // a batch again
	r := verify(t, log, heads...)
	if !r.Intact() || r.Duplicates != 5 || !r.TailVerified {
		t.Errorf("%d duplicates, %v", r.Duplicates, r.Faults)
	}
	if r := verify(t, append(log, first[2:4]...)); r.Intact() {
		t.Error("old lines that lead to nothing known are duplicates")
	}
}

// TestA3AnOpeningHoldsTheEarlierHeads: a chain's first event proves the heads of earlier chains.
func TestA3AnOpeningHoldsTheEarlierHeads(t *testing.T) {
	a := plain(t, "a", 0, 30)
	opened := audit.Event{ID: eventID(500), Type: audit.ChainOpened, Time: begin, Heads: []audit.Head{headOf(t, a)}}
	b := chained(t, "b", []audit.Event{opened, {ID: eventID(501), Type: audit.OperatorAction, Time: begin}})
	whole := append(a.clone(), b...)
	if r := verify(t, whole, headOf(t, b)); !r.Intact() || !r.TailVerified {
		t.Errorf("whole: %+v", r)
	}
	if r := verify(t, append(a[:28].clone(), b...)); len(r.Faults) != 1 || r.Faults[0].Kind != audit.FaultTruncated || r.Faults[0].ChainID != "a" || r.Faults[0].Seq != 29 {
		t.Errorf("tail of the earlier chain cut: %v", r.Faults)
	}
	if r := verify(t, b); len(r.Faults) != 1 || r.Faults[0].Kind != audit.FaultTruncated {
		t.Errorf("earlier chain missing: %v", r.Faults)
	}
	rewritten := plain(t, "a", 1000, 30)
	if r := verify(t, append(rewritten, b...)); len(r.Faults) != 1 || r.Faults[0].Kind != audit.FaultChanged || r.Faults[0].Index != 29 {
		t.Errorf("earlier chain rewritten: %v", r.Faults)
	}
}

// TestA3AnySingleTamperingIsFound checks random tampering with random logs; the report names the first bad event.
func TestA3AnySingleTamperingIsFound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(4, 60).Draw(rt, "events")
		log := plain(t, "a", 0, n)
		for i := rapid.IntRange(0, 3).Draw(rt, "repeats"); i > 0; i-- {
			at := rapid.IntRange(0, len(log)-1).Draw(rt, "repeated")
			log = slices.Insert(log, at+1, log[at])
		}
		head := headOf(t, log)
		if r := verify(t, log, head); !r.Intact() || r.Events != n {
			rt.Fatalf("untouched: %+v", r)
		}
		kind := rapid.SampledFrom([]string{"flip", "remove", "swap", "insert", "cut", "forge"}).Draw(rt, "kind")
		distinct := slices.CompactFunc(log.clone(), func(a, b []byte) bool { return string(a) == string(b) })
		k := rapid.IntRange(0, n-2).Draw(rt, "at")
		var want audit.FaultKind
		switch kind {
		case "flip":
			at := rapid.IntRange(0, len(distinct[k])-1).Draw(rt, "byte")
			distinct[k][at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "mask"))
			want = audit.FaultChanged
		case "remove":
			distinct, want = slices.Delete(distinct, k, k+1), audit.FaultMissing
		case "swap":
			other := rapid.IntRange(k+1, n-1).Draw(rt, "other")
			distinct[k], distinct[other] = distinct[other], distinct[k]
			want = audit.FaultOrder
		case "insert":
			e := parsed(t, distinct[k])
			e.ID = "inserted"
			distinct, want = slices.Insert(distinct, k, sealed(t, &e)), audit.FaultInserted
		case "cut":
			k++
			distinct, want = distinct[:k], audit.FaultTruncated
		case "forge":
			e := parsed(t, distinct[k])
			e.WorkID += "x"
			distinct[k], want = sealed(t, &e), audit.FaultChanged
		}
		r := verify(t, distinct, head)
		if len(r.Faults) == 0 || r.Faults[0].Index != k || r.Faults[0].Kind != want {
			rt.Fatalf("%s at %d: %v", kind, k, r.Faults)
		}
	})
}

// TestA4AFaultIsNamedInText verifies a line whose ID is not text, at once and in parts: both reports are the same, and valid UTF-8.
func TestA4AFaultIsNamedInText(t *testing.T) {
	log, _ := recorded(t, 1, 20)
	at := bytes.Index(log[10], []byte(`"event_id":"`)) + len(`"event_id":"`)
	log[10] = slices.Clone(log[10])
	log[10][at+1], log[10][at+2] = 0xff, 0xfe
	report := verify(t, log)
	if len(report.Faults) == 0 || !utf8.ValidString(report.Faults[0].EventID) || !strings.Contains(report.Faults[0].EventID, "\ufffd\ufffd") {
		t.Errorf("%+v", report.Faults)
	}
}
