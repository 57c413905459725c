package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
)

// patient records the timeouts of its acknowledgements.
type patient struct {
	*scripted
	left []time.Duration
}

func (s *patient) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	deadline, _ := ctx.Deadline()
	s.left = append(s.left, time.Until(deadline))
	if done[0].Transaction.ID() == "hangs" {
		<-ctx.Done()
	}
	return s.scripted.Ack(ctx, done)
}

// TestL11EachAcknowledgementHasItsOwnTimeout checks that the timeout does not depend on the number of acknowledgements or on earlier
// failures.
func TestL11EachAcknowledgementHasItsOwnTimeout(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		names := append(many(12), "hangs", "last")
		source := &patient{scripted: newScripted(answer{ids: names}, answer{err: pipeline.ErrEnd})}
		s := &script{process: map[string][]act{"*": ok(7 * time.Second), "last": ok(time.Minute)}}
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, len(names)), quiet).Run(bg)
		if err != nil || summary.Success != len(names) || len(source.left) != len(names) {
			t.Fatal(summary, err, source.left)
		}
		for i, left := range source.left {
			if left < 15*time.Second || left > 30*time.Second {
				t.Errorf("%s: %v", names[i], left)
			}
		}
	})
}

// extending counts its extensions.
type extending struct {
	*scripted
	calls int
}

func (s *extending) Extend(ctx context.Context, held []pipeline.Delivery) []error {
	s.calls++
	return s.scripted.Extend(ctx, held)
}

func TestL7NoLeaseIsExtendedWhileNoDeliveryIsHeld(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := &extending{scripted: newScripted(answer{takes: time.Minute}, answer{err: pipeline.ErrEnd})}
		source.every = 4 * time.Second
		p := consumerPolicy(1, 1)
		p.Loop.Streaming = true
		if _, err := pipeline.NewConsumer(source, (&script{}).task(), p).Run(bg); err != nil || source.calls != 0 {
			t.Error(err, source.calls)
		}
	})
}

func TestL7ADeliveryThatIsHeldBackBehindItsIDIsExtended(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": ok(9 * time.Second)}}
		source := newScripted(answer{ids: []string{"a", "a", "b"}}, answer{err: pipeline.ErrEnd})
		source.every = 4 * time.Second
		if _, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(2, 3)).Run(bg); err != nil {
			t.Fatal(err)
		}
		// Both deliveries of a at 4 and 8, the second at 12 and 16.
		if diff := cmp.Diff(map[string]int{"a": 6, "b": 2}, source.extended); diff != "" {
			t.Error(diff)
		}
	})
}

// slowly takes ten seconds for an acknowledgement.
type slowly struct{ *scripted }

func (s slowly) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	time.Sleep(10 * time.Second)
	return s.scripted.Ack(ctx, done)
}

func TestL7ADeliveryWhoseSettlementIsTheLastOfARunIsExtended(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"b": ok(time.Second)}}
		source := slowly{newScripted(answer{ids: []string{"a", "b"}}, answer{err: pipeline.ErrEnd})}
		source.every = 4 * time.Second
		if _, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 2)).Run(bg); err != nil {
			t.Fatal(err)
		}
		// At 4 and 8, while the acknowledgement of a is being sent.
		if diff := cmp.Diff(map[string]int{"b": 2}, source.extended); diff != "" {
			t.Error(diff)
		}
	})
}

// strict refuses all extensions, after two seconds.
type strict struct{ *scripted }

func (strict) Extend(_ context.Context, held []pipeline.Delivery) []error {
	time.Sleep(2 * time.Second)
	return slices.Repeat([]error{errDown}, len(held))
}

func TestL7ADeliveryThatIsSettledMeanwhileNeedsNoExtension(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": ok(5 * time.Second), "b": ok(7 * time.Second)}}
		source := strict{newScripted(answer{ids: []string{"a", "b"}}, answer{err: pipeline.ErrEnd})}
		source.every = 4 * time.Second
		var log bytes.Buffer
		if _, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(2, 2), pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(bg); err != nil {
			t.Fatal(err)
		}
		if strings.Count(log.String(), "could not be extended") != 1 || !strings.Contains(log.String(), "transaction=b") {
			t.Error(log.String())
		}
	})
}

// renewing takes two seconds for an extension, and notes the deliveries that are given back meanwhile.
type renewing struct {
	*scripted
	renews  atomic.Bool
	overlap []string
}

func (s *renewing) Extend(ctx context.Context, held []pipeline.Delivery) []error {
	s.renews.Store(true)
	time.Sleep(2 * time.Second)
	s.renews.Store(false)
	return s.scripted.Extend(ctx, held)
}

func (s *renewing) Nack(ctx context.Context, d pipeline.Delivery, delay time.Duration, cause error) error {
	if s.renews.Load() {
		s.overlap = append(s.overlap, d.Transaction.ID())
	}
	return s.scripted.Nack(ctx, d, delay, cause)
}

// TestL11AnExtensionDoesNotReplaceADelay: a source may keep the lease and the delay in one place, as JetStream and tables do.
func TestL11AnExtensionDoesNotReplaceADelay(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": {{takes: 5 * time.Second, err: errDown}}, "b": ok(9 * time.Second)}}
		source := &renewing{scripted: newScripted(answer{ids: []string{"a", "b"}}, answer{err: pipeline.ErrEnd})}
		source.every = 4 * time.Second
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(2, 2), quiet).Run(bg)
		if err != nil || summary.Failed != 1 || len(source.nacked) != 1 || source.extended["a"] != 1 || len(source.overlap) > 0 {
			t.Errorf("%+v, %v, given back %v, extended %v, given back during an extension: %v", summary, err, source.nacked, source.extended, source.overlap)
		}
	})
}

// stalled extends nothing until the engine gives an extension up, and notes when deliveries are acknowledged.
type stalled struct {
	*scripted
	begun time.Time
	acked map[string]time.Duration
}

func (s *stalled) Extend(ctx context.Context, held []pipeline.Delivery) []error {
	<-ctx.Done()
	return s.scripted.Extend(ctx, held)
}

func (s *stalled) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	for _, d := range done {
		s.acked[d.Transaction.ID()] = time.Since(s.begun)
	}
	return s.scripted.Ack(ctx, done)
}

// TestL7AnAcknowledgementDoesNotWaitForAnExtension, nor for the failed deliveries that do.
func TestL7AnAcknowledgementDoesNotWaitForAnExtension(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": {{takes: 6 * time.Second, err: errDown}}, "y": ok(7 * time.Second), "z": ok(time.Minute)}}
		source := &stalled{newScripted(answer{ids: []string{"a", "b", "y", "z"}}, answer{err: pipeline.ErrEnd}), time.Now(), map[string]time.Duration{}}
		source.every = 4 * time.Second
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(4, 4), quiet).Run(bg)
		if took := source.acked["y"]; err != nil || took != 7*time.Second || len(source.nacked) != 2 {
			t.Errorf("%+v, %v, acknowledged at %v, given back %v", summary, err, took, source.nacked)
		}
	})
}

// slow takes nine seconds for a negative acknowledgement.
type slow struct{ *scripted }

func (s slow) Nack(ctx context.Context, d pipeline.Delivery, delay time.Duration, cause error) error {
	time.Sleep(9 * time.Second)
	return s.scripted.Nack(ctx, d, delay, cause)
}

// TestL7ADeliveryThatWaitsToBeGivenBackIsExtended: it would come again without its delay.
func TestL7ADeliveryThatWaitsToBeGivenBackIsExtended(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": {{err: errDown}}, "d": ok(30 * time.Second)}}
		source := slow{newScripted(answer{ids: []string{"a", "b", "c", "d"}}, answer{err: pipeline.ErrEnd})}
		source.every = 4 * time.Second
		if summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 4), quiet).Run(bg); err != nil || summary.Failed != 3 || len(source.nacked) != 3 {
			t.Fatalf("%+v, %v, given back %v", summary, err, source.nacked)
		}
		// b until 9 s, c until 18 s.
		if diff := cmp.Diff(map[string]int{"b": 2, "c": 4, "d": 7}, source.extended); diff != "" {
			t.Error(diff)
		}
	})
}

// panicking panics in all methods but Fetch.
type panicking struct{ *scripted }

func (panicking) Ack(context.Context, []pipeline.Delivery) []error                    { panic("ack") }
func (panicking) Nack(context.Context, pipeline.Delivery, time.Duration, error) error { panic("nack") }
func (panicking) Extend(context.Context, []pipeline.Delivery) []error                 { panic("extend") }
func (panicking) Lag(context.Context) (int64, error)                                  { panic("lag") }

func TestL11APanicOfASourceFailsItsCallOnly(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := panicking{newScripted(answer{ids: []string{"a", "b", "c"}}, answer{ids: []string{"d"}}, answer{err: pipeline.ErrEnd})}
		source.every = 4 * time.Second
		s := &script{process: map[string][]act{"a": {{err: errDown}}, "*": ok(5 * time.Second)}}
		var log bytes.Buffer
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(3, 3), pipeline.WithObserver(mute{}),
			pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(bg)
		if err != nil || summary.Success != 3 || summary.Failed != 1 || summary.Unsettled != 4 {
			t.Error(summary, err)
		}
		for _, call := range []string{"ack", "nack", "extend", "lag"} {
			if !strings.Contains(log.String(), "panic in source: "+call) {
				t.Errorf("%s: %s", call, &log)
			}
		}
	})
}

// endless panics when it is asked for its interval.
type endless struct{ *scripted }

func (endless) ExtendEvery() time.Duration { panic("every") }

func TestL11APanicOfExtendEveryEndsNoRun(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var log bytes.Buffer
		source := endless{newScripted(answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd})}
		summary, err := pipeline.NewConsumer(source, (&script{}).task(), consumerPolicy(1, 1), pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(bg)
		if err != nil || summary.Success != 1 || !strings.Contains(log.String(), "panic in source: every") {
			t.Error(summary, err, &log)
		}
	})
}

func TestL4APanicAfterTheEndChangesNothing(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a", "b", "c"}}, answer{err: pipeline.ErrEnd})
		s := &script{process: map[string][]act{"a": {{err: errDown}}, "c": ok(time.Hour)}}
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		var log bytes.Buffer
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 3), pipeline.WithEnded(func(pipeline.Ended) { panic("no ledger") }),
			pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(ctx)
		want := pipeline.Summary{Fetched: 3, Processed: 1, Success: 1, Failed: 1, Redelivered: 1, Elapsed: time.Minute}
		if diff := cmp.Diff(want, summary); diff != "" || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(diff, err)
		}
		if len(source.acked) != 1 || len(source.nacked) != 2 || strings.Count(log.String(), "panic in ended: no ledger") != 3 {
			t.Error(source.acked, source.nacked, log.String())
		}
	})
}

func TestL4AnEndThatEndsTheGoroutineIsSettled(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a", "b"}}, answer{ids: []string{"c"}}, answer{})
		s := &script{}
		var ends []string
		seen := observe.Func(func(_ context.Context, e *observe.Event) {
			if e.Type == observe.CallEnded && e.Work.Operation == "default.transaction" {
				ends = append(ends, e.Work.ID+" "+e.Timeline.Attributes.Get(pipeline.AttrOutcome))
			}
		})
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 3), quiet, pipeline.WithObserver(seen),
			pipeline.WithEnded(func(pipeline.Ended) { runtime.Goexit() })).Run(bg)
		if err != nil || summary.Success != 3 || len(source.acked) != 3 {
			t.Errorf("%+v, %v, settled: %v", summary, err, source.acked)
		}
		if diff := cmp.Diff([]string{"a success", "b success", "c success"}, ends); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL9AnEndThatOutlastsTheGracePeriodIsSettled(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a", "b"}}, answer{err: pipeline.ErrEnd})
		s := &script{process: map[string][]act{"b": {{err: errDown}}}}
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(2, 2), quiet, pipeline.WithGrace(time.Second),
			pipeline.WithEnded(func(pipeline.Ended) { time.Sleep(time.Minute) })).Run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || summary.Success != 1 || summary.Failed != 1 || summary.Elapsed != 11*time.Second {
			t.Error(summary, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a"}, source.acked); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]nack{{"b", time.Second, true}}, source.nacked); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL9AnEndThatHangsDoesNotBlockTheEndOfARun(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a", "b", "c"}}, answer{err: pipeline.ErrEnd})
		s := &script{process: map[string][]act{"a": {{takes: time.Minute, deaf: true}}}}
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		start := time.Now()
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 3), quiet, pipeline.WithGrace(5*time.Second),
			pipeline.WithEnded(func(pipeline.Ended) { time.Sleep(time.Hour) })).Run(ctx)
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || summary.Redelivered != 3 || took > 20*time.Second {
			t.Errorf("%+v, %v, after %v", summary, err, took)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if len(source.nacked) != 3 {
			t.Errorf("given back: %v", source.nacked)
		}
	})
}

func TestL9AnEndThatEndsTheGoroutineLeavesNoDeliveryBehind(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a", "b", "c"}}, answer{err: pipeline.ErrEnd})
		s := &script{process: map[string][]act{"a": {{takes: time.Minute}}}}
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 3), quiet, pipeline.WithGrace(time.Second),
			pipeline.WithEnded(func(pipeline.Ended) { runtime.Goexit() })).Run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || summary.Redelivered != 3 || len(source.nacked) != 3 {
			t.Errorf("%+v, %v, given back: %v", summary, err, source.nacked)
		}
	})
}

func TestL7ADeliveryIsExtendedWhileItsEndIsTold(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd})
		source.every = time.Second
		_, err := pipeline.NewConsumer(source, (&script{}).task(), consumerPolicy(1, 1),
			pipeline.WithEnded(func(pipeline.Ended) { time.Sleep(10500 * time.Millisecond) })).Run(bg)
		if err != nil || source.extended["a"] != 10 {
			t.Errorf("extended %d times, %v", source.extended["a"], err)
		}
	})
}

// deaf answers acknowledgements after an hour and ignores their contexts.
type deaf struct{ *scripted }

func (s *deaf) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	time.Sleep(time.Hour)
	return s.scripted.Ack(ctx, done)
}

func TestL9AnUnresponsiveSourceDoesNotBlockTheEndOfARun(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := &deaf{newScripted(answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd})}
		var log bytes.Buffer
		summary, err := pipeline.NewConsumer(source, (&script{}).task(), consumerPolicy(1, 1), pipeline.WithGrace(10*time.Second),
			pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(bg)
		if err != nil || summary.Success != 1 || summary.Unsettled != 1 || summary.Elapsed != 10*time.Second {
			t.Error(summary, err)
		}
		if text := log.String(); strings.Count(text, "the source does not answer") != 1 {
			t.Errorf("logged: %s", text)
		}
		time.Sleep(time.Hour) // until the source's call returns
		synctest.Wait()
	})
}

func TestLateSettlementsCountUntilTheSourceTakesThem(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := &deaf{newScripted(answer{ids: []string{"a", "b"}}, answer{err: pipeline.ErrEnd})}
		ended := map[string]time.Duration{"a": time.Minute, "b": 2 * time.Minute}
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		consumer := pipeline.NewConsumer(source, (&script{}).task(), consumerPolicy(2, 2), quiet, pipeline.WithGrace(time.Second),
			pipeline.WithEnded(func(e pipeline.Ended) { time.Sleep(ended[e.Delivery.Transaction.ID()]) }))
		if _, err := consumer.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		var got []int
		for _, wait := range []time.Duration{90 * time.Second, time.Minute, time.Hour - time.Minute, time.Minute} {
			time.Sleep(wait)
			synctest.Wait()
			got = append(got, consumer.Progress().Unsettled)
		}
		if diff := cmp.Diff([]int{1, 2, 1, 0}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL7FetchingWaitsWhileTooManyAcknowledgementsArePending(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		full := answer{ids: many(1000)}
		source := &deaf{newScripted(full, full, full, full, full, full, full, answer{err: pipeline.ErrEnd})}
		consumer := pipeline.NewConsumer(source, (&script{}).task(), consumerPolicy(1, 1000), pipeline.WithGrace(3*time.Hour))
		time.AfterFunc(time.Minute, func() {
			if got := consumer.Progress().Summary; got.Fetched != 5000 || got.Success != 5000 {
				t.Errorf("the first acknowledgement has not returned, but the run is at %+v", got)
			}
		})
		if summary, err := consumer.Run(bg); err != nil || summary.Success != 7000 || len(source.acked) != 7000 {
			t.Error(summary, err, len(source.acked))
		}
	})
}
