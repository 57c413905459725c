package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// eventLog records everything observable of a run, one line each: fetches, calls of the task, attempts, decisions, dead
// letters, settlements and outcomes. Lines begin with the time since the start.
type eventLog struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (l *eventLog) add(format string, args ...any) {
	text, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n") // stacks of panics differ
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%015d %s", time.Since(l.start), text))
}

// Observe implements observe.Observer.
func (l *eventLog) Observe(_ context.Context, e *observe.Event) {
	name := fmt.Sprintf("%s %s %s #%d", e.Type, e.Work.Key, e.Work.ID, e.Seq)
	switch e.Type {
	case observe.AttemptEnded:
		a := e.Attempt
		l.add("%s: attempt %d after %v: %s %s %v", name, a.Attempt, a.Backoff, a.Outcome.Kind, a.Outcome.Reason, a.Err)
	case observe.Decided:
		l.add("%s: %v", name, e.Decision.Verdict)
	case observe.CallEnded:
		l.add("%s: %s %v", name, e.Timeline.Reason, e.Timeline.FinalError)
	case observe.Flowed:
		l.add("%s: %+v", name, *e.Flow)
	default:
		l.add("%s", name)
	}
}

// sorted sorts the lines: those of one moment have no order, because concurrent goroutines write them.
func (l *eventLog) sorted() []string { return slices.Sorted(slices.Values(l.lines)) }

// overheard is a scripted source that logs its calls.
type overheard struct {
	*scripted
	log *eventLog
}

func (s overheard) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	s.log.add("fetch of %d", r.Max)
	got, err := s.scripted.Fetch(ctx, r)
	for _, d := range got {
		s.log.add("fetched %s", d.Transaction.ID())
	}
	s.log.add("fetched %d, %v", len(got), err)
	return got, err
}

func (s overheard) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	for _, d := range done {
		s.log.add("ack %s", d.Transaction.ID())
	}
	return s.scripted.Ack(ctx, done)
}

func (s overheard) Nack(ctx context.Context, d pipeline.Delivery, delay time.Duration, cause error) error {
	s.log.add("nack %s for %v: %v", d.Transaction.ID(), delay, cause)
	return s.scripted.Nack(ctx, d, delay, cause)
}

// scene is a script and its surroundings.
type scene struct {
	script  *script
	policy  policy.Consumer
	answers []answer
	letters []error // the results of the first calls of the dead-letter sink
}

// play runs a scene in virtual time and returns its event log.
func (sc *scene) play(t *testing.T) (lines []string) {
	synctest.Test(t, func(*testing.T) {
		log := &eventLog{start: time.Now()}
		source := overheard{newScripted(sc.answers...), log}
		task := sc.script.task()
		defer func() { sc.script.log = nil }()
		dispatched := map[string]int{}
		options := []pipeline.Option{quiet, pipeline.WithObserver(log), pipeline.WithGrace(3 * time.Second),
			pipeline.WithEnded(func(e pipeline.Ended) { log.add("ended %s: %s %v", e.Delivery.Transaction.ID(), e.Outcome, e.Err) })}
		if sc.letters != nil {
			options = append(options, pipeline.WithDeadLetter(pipeline.SinkFunc(func(_ context.Context, x *pipeline.Transaction) error {
				log.mu.Lock()
				n := dispatched[x.ID()]
				dispatched[x.ID()]++
				log.mu.Unlock()
				err := sc.letters[min(n, len(sc.letters)-1)]
				log.add("dead letter %s %v attempts %d: %v", x.ID(), x.AllMetadata(), x.Attempts(), err)
				return err
			})))
		}
		summary, err := pipeline.NewConsumer(source, task, sc.policy, options...).Run(bg)
		time.Sleep(time.Hour) // abandoned calls return
		synctest.Wait()
		log.add("%+v %v", summary, err)
		lines = append(log.sorted(), sc.script.sorted()...)
	})
	return lines
}

// sorted returns the calls of the task in order.
func (s *script) sorted() []string { return slices.Sorted(slices.Values(s.log)) }

// TestL1ToL12TheSameScriptGivesTheSameEventLog plays a script with every kind of event twice.
func TestL1ToL12TheSameScriptGivesTheSameEventLog(t *testing.T) {
	slow := act{takes: time.Hour}
	rich := func() *scene {
		p := consumerPolicy(3, 4)
		for _, step := range []*policy.Step{&p.Steps.Process, &p.Steps.Success, &p.Steps.Exception} {
			*step = retries(3)
			step.Retry.Jitter, step.Retry.TimeoutPerAttempt = policy.JitterFull, 5*time.Second+offset
		}
		p.Steps.Fetch.Retry = retries(3).Retry
		p.Steps.Fetch.Retry.TimeoutPerAttempt = 2*time.Second + 2*offset
		p.Loop.TransactionTimeout, p.Loop.Limit, p.Loop.Streaming = 12*time.Second+3*offset, 17, true
		p.Loop.EmptyQueue = policy.EmptyQueue{Backoff: time.Second, BackoffMultiplier: 2, BackoffCap: 8 * time.Second}
		return &scene{
			policy: p, letters: []error{errDown, nil},
			answers: []answer{
				{ids: []string{"fine", "retried", "business", "panics"}}, {err: errDown}, {ids: []string{"fine", "fine", "slow"}}, {}, {},
				{takes: time.Hour}, {ids: []string{"hangs", "unhandled", "late success", "asked to wait"}}, {},
				{ids: []string{"slow", "permanent", "deaf"}}, {ids: many(3)},
			},
			script: &script{
				handlers: "se",
				process: map[string][]act{
					"*": ok(700 * time.Millisecond), "retried": fails(2, errDown), "business": {{err: classify.Business(errDown)}},
					"panics": {{panic: "broken"}, {}}, "slow": {slow, {takes: 3 * time.Second}}, "hangs": {slow},
					"unhandled": {{err: errDown}}, "asked to wait": {{err: classify.After(errDown, 4*time.Second)}, {}},
					"permanent": {{err: classify.Permanent(errDown)}}, "deaf": {{takes: 9 * time.Second, deaf: true}},
				},
				success:   map[string][]act{"late success": {{err: errDown}}, "fine": fails(1, errDown)},
				exception: map[string][]act{"unhandled": {{err: errDown}}, "hangs": fails(1, errDown)},
			},
		}
	}
	for name, c := range map[string]struct {
		change func(*scene)
		shows  []string // each in some line
	}{
		"limit": {func(*scene) {}, []string{
			"fetch of 4", "fetch of 3", "fetched 0, down", "fetched 0, context deadline exceeded", "EmptyWait:2s", "ack fine", "nack unhandled",
			"process: business: ", "timeout: ", "panic", "dead letter business map[tenet_category:business", "dead letter hangs",
			"dead letter late success map[tenet_category:system", "transaction timeout", "ended unhandled: failed", "exception hangs",
			"Fetched:17 ", "Abandoned:0",
		}},
		"loop timeout": {func(sc *scene) { sc.policy.Loop.Timeout = 17*time.Second + 5*offset }, []string{
			"redelivered", "for 0s: <nil>", "pipeline: consumer default: loop timeout of 17.000035s exceeded",
		}},
		"spent fetch": {func(sc *scene) { sc.answers = append(sc.answers[:6:6], answer{takes: time.Hour}) }, []string{"fetch timed out"}},
		"surplus":     {func(sc *scene) { sc.answers[6].ids = many(9) }, []string{"it returned 9 transactions where 4 were asked for", "nack t08"}},
	} {
		t.Run(name, func(t *testing.T) {
			var logs [2][]string
			for i := range logs {
				sc := rich()
				c.change(sc)
				sc.answers = apart(sc.answers)
				logs[i] = sc.play(t)
			}
			if diff := cmp.Diff(logs[0], logs[1]); diff != "" {
				t.Fatal(diff)
			}
			text := strings.Join(logs[0], "\n")
			for _, part := range c.shows {
				if !strings.Contains(text, part) {
					t.Errorf("no line contains %q", part)
				}
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

// TestL1ToL12RandomScriptsGiveTheSameEventLog checks that the engine is deterministic.
func TestL1ToL12RandomScriptsGiveTheSameEventLog(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f"}
		sc := &scene{script: scriptOf(r, names), policy: policyOf(r)}
		sc.answers = drawLot(r, rapid.SliceOfN(rapid.SampledFrom(names), 1, 12).Draw(r, "ids")).answers
		for _, step := range []*policy.Step{&sc.policy.Steps.Process, &sc.policy.Steps.Success, &sc.policy.Steps.Exception} {
			step.Retry.Jitter = policy.JitterFull // the transaction is the seed
		}
		if rapid.Bool().Draw(r, "dead letters") {
			sc.letters = []error{errDown, nil}
		}
		first := sc.play(t)
		if diff := cmp.Diff(first, sc.play(t)); diff != "" {
			r.Fatal(diff)
		}
	})
}
