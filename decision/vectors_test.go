package decision_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

var update = flag.Bool("update", false, "rewrite testdata/vectors.json")

const vectorsFile = "testdata/vectors.json"

// vectors is the format of testdata/vectors.json, described in testdata/README.md.
type vectors struct {
	Format     int              `json:"format"`
	Seeds      []seedVector     `json:"seeds"`
	Draws      []drawVector     `json:"draws"`
	Delays     []delayVector    `json:"delays"`
	Judgements []judgeVector    `json:"judgements"`
	Groups     []groupVector    `json:"groups"`
	Sequences  []sequenceVector `json:"sequences"`
}

type seedVector struct {
	WorkID string `json:"work_id"`
	Step   string `json:"step,omitempty"`
	Seed   uint64 `json:"seed,string"`
}

type drawVector struct {
	Seed  uint64   `json:"seed,string"`
	Draws []number `json:"draws"`
}

// number is an unsigned integer that is written as a string.
type number uint64

func (n number) MarshalText() ([]byte, error) { return json.Marshal(uint64(n)) }

func (n *number) UnmarshalText(b []byte) error { return json.Unmarshal(b, (*uint64)(n)) }

type delayVector struct {
	Name   string       `json:"name"`
	Policy policy.Retry `json:"policy"`
	Seed   uint64       `json:"seed,string"`
	From   int          `json:"from"` // index of the first delay
	Delays []number     `json:"delays_ns"`
}

type outcomeVector struct {
	Kind     classify.Kind     `json:"kind"`
	Category classify.Category `json:"category"`
	Class    policy.Class      `json:"class,omitempty"`
	Reason   policy.Reason     `json:"reason"`
	Pushback int64             `json:"pushback_ns,string,omitempty"`
}

func (o outcomeVector) outcome() classify.Outcome {
	return classify.Outcome{Kind: o.Kind, Category: o.Category, Class: o.Class, Reason: o.Reason, Pushback: time.Duration(o.Pushback)}
}

func outcomeOf(o classify.Outcome) outcomeVector {
	return outcomeVector{Kind: o.Kind, Category: o.Category, Class: o.Class, Reason: o.Reason, Pushback: int64(o.Pushback)}
}

type judgeVector struct {
	Name    string        `json:"name"`
	Policy  policy.Retry  `json:"policy"`
	Facts   factsVector   `json:"facts"`
	Outcome outcomeVector `json:"outcome"`
	Rule    decision.Rule `json:"rule"`
}

type factsVector struct {
	Failed     bool             `json:"failed"`
	Ended      policy.Reason    `json:"ended,omitempty"`
	TimedOut   bool             `json:"timed_out,omitempty"`
	Mark       string           `json:"mark,omitempty"`
	Pushback   int64            `json:"pushback_ns,string,omitempty"`
	Classes    []classify.Match `json:"classes,omitempty"`
	Classified *outcomeVector   `json:"classified,omitempty"`
}

var markNames = map[string]classify.Mark{
	"": classify.Unmarked, "permanent": classify.MarkPermanent, "business": classify.MarkBusiness, "after": classify.MarkAfter,
}

func (f factsVector) facts() decision.Facts {
	facts := decision.Facts{
		Failed: f.Failed, Ended: f.Ended, TimedOut: f.TimedOut, Mark: markNames[f.Mark],
		Pushback: time.Duration(f.Pushback), Classes: f.Classes,
	}
	if f.Classified != nil {
		o := f.Classified.outcome()
		facts.Classified = &o
	}
	return facts
}

type groupVector struct {
	Name                  string        `json:"name"`
	CancelOnFirstTerminal bool          `json:"cancel_on_first_terminal"`
	Events                []groupEvent  `json:"events"`
	Outcome               outcomeVector `json:"outcome"`
	Deciding              int           `json:"deciding"`
}

// groupEvent is the launch of an attempt or, with an outcome, its end. The answers are those after the event.
type groupEvent struct {
	Launch   int            `json:"launch"`
	Outcome  *outcomeVector `json:"outcome,omitempty"`
	Decided  bool           `json:"decided"`
	MayHedge bool           `json:"may_hedge"`
}

type sequenceVector struct {
	Name        string          `json:"name"`
	Policy      policy.Retry    `json:"policy"`
	Surface     policy.Surface  `json:"surface"`
	WorkID      string          `json:"work_id"`
	Step        string          `json:"step,omitempty"`
	Seed        uint64          `json:"seed,string"`
	MaxAttempts int             `json:"max_attempts,omitempty"`
	Attempts    []attemptVector `json:"attempts"`
}

type attemptVector struct {
	Outcome    outcomeVector `json:"outcome"`
	Left       int64         `json:"left_ns,string,omitempty"` // absent: unbounded
	LeftReason policy.Reason `json:"left_reason,omitempty"`
	Verdict    verdictVector `json:"verdict"`
}

type verdictVector struct {
	Action string        `json:"action"`
	Delay  int64         `json:"delay_ns,string"`
	Reason policy.Reason `json:"reason"`
}

// answer fills in the results of package decision for the inputs of the vectors. Bare draws are not exported; they come from
// the reference, which TestD3DrawsArePublishedSplitMix64 compares with the package.
func (v *vectors) answer() {
	for i, s := range v.Seeds {
		v.Seeds[i].Seed = seedOf(s.WorkID, s.Step)
	}
	for i := range v.Draws {
		d := &v.Draws[i]
		for k := range d.Draws {
			d.Draws[k] = number(referenceDraw(d.Seed, k).Uint64())
		}
	}
	for i := range v.Delays {
		d := &v.Delays[i]
		for k := range d.Delays {
			d.Delays[k] = number(decision.Delay(&d.Policy, d.Seed, d.From+k))
		}
	}
	for i := range v.Judgements {
		j := &v.Judgements[i]
		f := j.Facts.facts()
		o, rule := decision.Judge(&j.Policy, &f)
		j.Outcome, j.Rule = outcomeOf(o), rule
	}
	for i := range v.Groups {
		v.Groups[i].answer()
	}
	for i := range v.Sequences {
		v.Sequences[i].answer()
	}
}

func seedOf(workID, step string) uint64 {
	if step == "" {
		return decision.Seed(workID)
	}
	return decision.StepSeed(workID, step)
}

func (v *groupVector) answer() {
	g := decision.Group{CancelOnFirstTerminal: v.CancelOnFirstTerminal}
	decided := false
	for i := range v.Events {
		e := &v.Events[i]
		if e.Outcome == nil {
			g.Launch()
		} else {
			decided = g.End(e.Launch, e.Outcome.outcome())
		}
		e.Decided, e.MayHedge = decided, g.MayHedge()
	}
	o, deciding := g.Outcome()
	v.Outcome, v.Deciding = outcomeOf(o), deciding
}

func (v *sequenceVector) answer() {
	v.Seed = seedOf(v.WorkID, v.Step)
	for i := range v.Attempts {
		a := &v.Attempts[i]
		s := decision.State{
			Surface: v.Surface, Attempt: i + 1, MaxAttempts: v.MaxAttempts, Seed: v.Seed,
			Left: decision.Unbounded, LeftReason: a.LeftReason,
		}
		if a.LeftReason != "" {
			s.Left = time.Duration(a.Left)
		}
		o := a.Outcome.outcome()
		verdict := decision.Next(&v.Policy, &s, &o)
		a.Verdict = verdictVector{verdict.Action.String(), int64(verdict.Delay), verdict.Reason}
	}
}

// encode writes one case to a line, so that a change shows which cases it touches.
func (v *vectors) encode() ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var sections map[string]json.RawMessage
	if err := json.Unmarshal(text, &sections); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("{\n\"format\": 1")
	for _, name := range []string{"seeds", "draws", "delays", "judgements", "groups", "sequences"} {
		var cases []json.RawMessage
		if err := json.Unmarshal(sections[name], &cases); err != nil {
			return nil, err
		}
		out.WriteString(",\n\"" + name + "\": [\n  ")
		out.Write(bytes.Join(rows(cases), []byte(",\n  ")))
		out.WriteString("\n]")
	}
	out.WriteString("\n}\n")
	return out.Bytes(), nil
}

func rows(cases []json.RawMessage) [][]byte {
	list := make([][]byte, len(cases))
	for i, c := range cases {
		list[i] = c
	}
	return list
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var v vectors
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestD3VectorsAreCurrent(t *testing.T) {
	v := vectorInputs(t)
	v.answer()
	text, err := v.encode()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(vectorsFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(stored), string(text)); diff != "" {
		t.Errorf("decisions are frozen and these differ: %s", diff)
	}
}

// TestD3VectorsHold reads everything from the file, as an implementation in another language would.
func TestD3VectorsHold(t *testing.T) {
	want, got := readVectors(t), readVectors(t)
	if want.Format != 1 || len(want.Seeds) == 0 || len(want.Draws) == 0 || len(want.Delays) == 0 ||
		len(want.Judgements) == 0 || len(want.Groups) == 0 || len(want.Sequences) == 0 {
		t.Fatal("a section of the file is empty")
	}
	got.answer()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestD3VectorsEqualTheReference(t *testing.T) {
	v := readVectors(t)
	for _, s := range v.Seeds {
		id := s.WorkID
		if s.Step != "" {
			id += "/" + s.Step
		}
		if want := referenceSeed(id); s.Seed != want {
			t.Errorf("seed of %q is %d, want %d", id, s.Seed, want)
		}
	}
	for _, d := range v.Delays {
		if d.Policy.Jitter == policy.JitterDecorrelated || d.From == 0 {
			want := referenceDelays(&d.Policy, d.Seed, d.From+len(d.Delays))[d.From:]
			for k, got := range d.Delays {
				if number(want[k]) != got {
					t.Errorf("%s: delay %d is %d, want %d", d.Name, d.From+k, got, want[k])
				}
			}
			continue
		}
		for k, got := range d.Delays {
			if want := referenceDelay(&d.Policy, d.Seed, d.From+k); number(want) != got {
				t.Errorf("%s: delay %d is %d, want %d", d.Name, d.From+k, got, want)
			}
		}
	}
	retries := 0
	for _, s := range v.Sequences {
		own := referenceDelays(&s.Policy, s.Seed, len(s.Attempts))
		for i, a := range s.Attempts {
			if a.Verdict.Action != "retry" {
				continue
			}
			retries++
			if want := max(int64(own[i]), min(a.Outcome.Pushback, int64(s.Policy.MaxPushback))); a.Verdict.Delay != want {
				t.Errorf("%s: delay after attempt %d is %d, want %d", s.Name, i+1, a.Verdict.Delay, want)
			}
		}
	}
	if retries < 20 {
		t.Errorf("the sequences hold only %d retries", retries)
	}
}
