package pipelinetest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// The queues of a [Broker].
const (
	Work        = "work"
	DeadLetters = "dead_letters"
)

// Broker is a server with two empty queues, [Work] and [DeadLetters], that can be killed.
type Broker struct {
	// Source opens a handle of a queue. Required. The suite closes it if it is an io.Closer, as with Sink.
	Source func(t *testing.T, queue string) pipeline.Source
	// Sink opens a sink of a queue, whose Dispatch returns only when the server has stored the transaction. Required.
	Sink func(t *testing.T, queue string) pipeline.Sink
	// Left returns how many transactions are still in a queue, according to the server. Required.
	Left func(t *testing.T, queue string) int
	// Kill kills the server's process (SIGKILL) and starts it again on the same data. It returns when the server answers.
	// Required.
	Kill func(t *testing.T)
	// Lease is the time after which a delivery that is not acknowledged is delivered again, while its handle is open.
	Lease time.Duration
	// Transactions is the number of transactions, at least 5,000. Default 100,000; with -short, 5,000.
	Transactions int
	// Timeout is how long the whole test may take before missing transactions count as lost. Default 15 min.
	Timeout time.Duration
}

// Crashes checks that every transaction of a queue ends exactly as scripted although the server is killed twice under load:
// after a third of the transactions have ended, and after two thirds. Of each 20 transactions, one fails once and then succeeds,
// one fails until it has no attempts left, one is refused, and one is given back and succeeds at a later delivery; of each
// 5,000, one times out. Those that fail, are refused or time out become dead letters. After a crash, any transaction may be
// delivered again; it must then end in the same way. At the end, the server must report that the queue is empty and that the
// other queue holds the scripted dead letters.
func Crashes(t *testing.T, b Broker) {
	b.Transactions = cmp.Or(b.Transactions, 100_000)
	if testing.Short() {
		b.Transactions = 5000
	}
	b.Timeout = cmp.Or(b.Timeout, 15*time.Minute) // more than a busy machine takes
	l := newLedger(b.Transactions)
	began := time.Now()
	l.fill(t, b)
	filled := time.Now()
	summary, down := l.settle(t, b)
	settled := time.Now()
	rest := &source{T: t, ctx: t.Context()}
	rest.none(closing(t, b.Source(t, Work)), b.Lease+3*fetchWait)
	if n := b.Left(t, Work); n > 0 {
		t.Errorf("the server still has %d", n)
	}
	letters := read(t, b)
	for _, fault := range l.audit(letters) {
		t.Error(fault)
	}
	t.Logf("%d transactions, %d kills that took %v; %d deliveries, of which %d came again without having been given back; "+
		"%d acknowledgements were not taken; filling %v, settling %v (%.0f/s while the server was up), audit %v; %+v",
		b.Transactions, kills, down.Round(time.Millisecond), summary.Fetched, summary.Fetched-b.Transactions-summary.Failed, summary.Unsettled,
		filled.Sub(began).Round(time.Millisecond), settled.Sub(filled).Round(time.Millisecond),
		float64(summary.Fetched)/(settled.Sub(filled)-down).Seconds(), time.Since(settled).Round(time.Millisecond), summary)
}

const (
	kills          = 2
	attemptTimeout = 5 * time.Second // time of an attempt: far more than those take that do not wait for it
	manyAttempts   = 1000            // more than any outage takes
)

func (l *ledger) fill(t *testing.T, b Broker) {
	t.Helper()
	list := make([]*pipeline.Transaction, b.Transactions)
	for i := range list {
		id := strconv.Itoa(i)
		list[i] = pipeline.NewTransaction(id, []byte(`{"number":`+id+`}`))
	}
	var p policy.Producer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size, p.Loop.Timeout = 256, 10_000, b.Timeout
	to := b.Sink(t, Work)
	summary, err := pipeline.NewProducer(to, pipeline.Raw{}, p).Run(t.Context(), pipeline.Values(list...))
	if err != nil || summary.Success != len(list) {
		t.Fatalf("the queue could not be filled: %+v, %v", summary, err)
	}
	closeNow(t, to)
}

// settle runs an engine until the ledger and the server agree that nothing is left. down is how long the server was away.
func (l *ledger) settle(t *testing.T, b Broker) (summary pipeline.Summary, down time.Duration) {
	t.Helper()
	var killing sync.Mutex
	var group sync.WaitGroup
	l.third = func() {
		group.Go(func() {
			killing.Lock()
			defer killing.Unlock()
			start := time.Now()
			b.Kill(t)
			down += time.Since(start)
		})
	}
	from := b.Source(t, Work)
	consumer := pipeline.NewConsumer(from, l.task(), retryingPolicy(b.Timeout), pipeline.WithLogger(slog.New(slog.DiscardHandler)),
		pipeline.WithDeadLetter(closing(t, b.Sink(t, DeadLetters))), pipeline.WithEnded(l.ended))
	ran := make(chan struct{})
	group.Go(func() {
		select {
		case <-l.complete:
		case <-ran:
			return
		}
		killing.Lock() // Left may ask the server
		defer killing.Unlock()
		for end := time.Now().Add(b.Timeout); b.Left(t, Work) > 0 && time.Now().Before(end); {
			time.Sleep(fetchWait)
		}
		consumer.Drain()
	})
	summary, err := consumer.Run(t.Context())
	close(ran)
	group.Wait()
	if err != nil || summary.Ended() != summary.Fetched {
		t.Errorf("Run: %v (%+v)", err, summary)
	}
	closeNow(t, from)
	return summary, down
}

// retryingPolicy is a policy under which nothing is given up but what the script fails.
func retryingPolicy(timeout time.Duration) (p policy.Consumer) {
	p.Loop.Streaming, p.Loop.Timeout = true, timeout
	p.Loop.Concurrency.Value, p.Loop.Batch.Size, p.Loop.Batch.Interval = 64, 500, fetchWait
	p.Loop.EmptyQueue = policy.EmptyQueue{Backoff: 20 * time.Millisecond, BackoffCap: 100 * time.Millisecond}
	p.Steps.Process.Retry = policy.Retry{MaxAttempts: 2, InitialBackoff: 5 * time.Millisecond, TimeoutPerAttempt: attemptTimeout}
	again := policy.Retry{MaxAttempts: manyAttempts, InitialBackoff: 20 * time.Millisecond, MaxBackoff: 200 * time.Millisecond}
	p.Steps.Fetch.Retry, p.Steps.Exception.Retry = again, again
	return p
}

// read empties the queue of letters and returns the categories of each transaction's.
func read(t *testing.T, b Broker) map[int][]string {
	t.Helper()
	from := closing(t, b.Source(t, DeadLetters))
	rest := &source{T: t, ctx: t.Context()}
	letters := map[int][]string{}
	for end := time.Now().Add(b.Timeout); ; {
		got, err := from.Fetch(t.Context(), pipeline.FetchRequest{Max: 1000, Wait: fetchWait})
		if err != nil {
			t.Fatalf("Fetch of letters: %v", err)
		}
		for _, d := range got {
			i := number(d.Transaction)
			letters[i] = append(letters[i], d.Transaction.Metadata(pipeline.MetaCategory))
		}
		rest.ack(from, got...)
		if len(got) > 0 {
			continue
		}
		if n := b.Left(t, DeadLetters); n == 0 {
			return letters
		} else if time.Now().After(end) {
			t.Fatalf("%d letters do not come", n)
		}
	}
}

// closing closes a handle at the end of the test.
func closing[H any](t *testing.T, handle H) H {
	t.Helper()
	t.Cleanup(func() { closeNow(t, handle) })
	return handle
}

func closeNow(t *testing.T, handle any) {
	t.Helper()
	if c, ok := handle.(io.Closer); ok {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

var (
	errDown    = errors.New("down")
	errRefused = classify.Business(errors.New("refused"))
	errBack    = classify.Permanent(errors.New("it comes again"))
)

// task does what the script says.
func (l *ledger) task() pipeline.Raw {
	return pipeline.Raw{
		Process: func(ctx context.Context, x *pipeline.Transaction) (*pipeline.Transaction, error) {
			i := number(x)
			e := l.attempt(i)
			switch scripted(i) {
			case refused:
				return nil, errRefused
			case exhausted:
				return nil, errDown
			case timesOut:
				<-ctx.Done()
				return nil, ctx.Err()
			case failsOnce:
				if e.attempts == 1 {
					return nil, errDown
				}
			case nacked:
				if e.nacks == 0 {
					return nil, errDown
				}
			}
			return nil, nil
		},
		Exception: func(_ context.Context, x *pipeline.Transaction, _ error) error {
			if scripted(number(x)) == nacked {
				return errBack
			}
			return nil
		},
	}
}
