package policy

import (
	"fmt"
	"reflect"
	"time"

	"github.com/tenetdev/tenet/internal/fields"
)

// Consumer governs an engine that fetches transactions from a source and processes them.
type Consumer struct {
	// Category of the steps that do not set one.
	Category Category `json:"category" check:"null"`
	// Loop is the engine's outer loop.
	Loop ConsumerLoop `json:"loop"`
	// Steps are the independent retry envelopes of one transaction.
	Steps ConsumerSteps `json:"steps"`

	normal bool // Normalize has run, so a zero field stays zero, whatever the category says
}

// ConsumerLoop is the outer loop of a consumer.
type ConsumerLoop struct {
	// Batch is how transactions are grouped when fetched.
	Batch Batch `json:"batch"`
	// Concurrency is how many transactions run at a time.
	Concurrency Concurrency `json:"concurrency"`
	// Timeout bounds the whole run, in seconds. Default none.
	Timeout time.Duration `json:"timeout" check:"positive,null"`
	// Limit is how many transactions are taken before the run ends. Default none.
	Limit int `json:"limit" check:"positive,null"`
	// TransactionTimeout bounds one transaction from the moment a worker takes it, in seconds. Default none.
	TransactionTimeout time.Duration `json:"transaction_timeout" check:"positive,null"`
	// Streaming keeps the loop running when the source is empty. Default false: the first empty fetch ends it.
	Streaming bool `json:"streaming"`
	// EmptyQueue is the wait after empty fetches while streaming.
	EmptyQueue EmptyQueue `json:"empty_queue"`
}

// ConsumerSteps are the steps of a consumed transaction.
type ConsumerSteps struct {
	// Fetch asks the source for transactions.
	Fetch FetchStep `json:"fetch"`
	// Process runs the task.
	Process Step `json:"process"`
	// Success handles processed transactions.
	Success Step `json:"success"`
	// Exception handles failed transactions.
	Exception Step `json:"exception"`
}

// Producer governs an engine that writes a finite set of transactions to a sink.
type Producer struct {
	// Category of the steps that do not set one.
	Category Category `json:"category" check:"null"`
	// Loop is the engine's outer loop.
	Loop ProducerLoop `json:"loop"`
	// Steps are the independent retry envelopes of one transaction.
	Steps ProducerSteps `json:"steps"`

	normal bool // as in Consumer
}

// ProducerLoop is the outer loop of a producer.
type ProducerLoop struct {
	// Concurrency is how many transactions run at a time.
	Concurrency Concurrency `json:"concurrency"`
	// Batch is how the input is cut into chunks.
	Batch Batch `json:"batch"`
	// Timeout bounds the whole run, in seconds. Default none.
	Timeout time.Duration `json:"timeout" check:"positive,null"`
	// Limit is how many transactions are taken before the run ends. Default none.
	Limit int `json:"limit" check:"positive,null"`
	// TransactionTimeout bounds one transaction, in seconds. Default none.
	TransactionTimeout time.Duration `json:"transaction_timeout" check:"positive,null"`
}

// ProducerSteps are the steps of a produced transaction.
type ProducerSteps struct {
	// Produce writes to the sink.
	Produce Step `json:"produce"`
	// Success handles written transactions.
	Success Step `json:"success"`
	// Exception handles failed transactions.
	Exception Step `json:"exception"`
}

// Step is the retry envelope of one step.
type Step struct {
	// Category takes defaults from the catalog of operation categories and marks what the step records. Default: the consumer's or producer's.
	Category Category `json:"category" check:"null"`
	// Retry bounds the step's repetition.
	Retry Retry `json:"retry"`
	// Limit bounds how many attempts of the step run at a time and start per period.
	Limit Limit `json:"limit" check:"null"`
}

// FetchStep is the retry envelope of fetching, with values for the source.
type FetchStep struct {
	// Category takes defaults from the catalog of operation categories and marks what the step records. Default: the consumer's.
	Category Category `json:"category" check:"null"`
	// Retry bounds the step's repetition.
	Retry Retry `json:"retry"`
	// Limit bounds how many attempts of the step run at a time and start per period.
	Limit Limit `json:"limit" check:"null"`
	// Extra holds values for the source, which gets a deep copy; nothing else reads them.
	Extra map[string]any `json:"extra" check:"null"`
}

// Batch groups transactions.
type Batch struct {
	// Size is how many transactions are fetched or produced at a time. Default 1.
	Size int `json:"size" check:"min=1"`
	// MinSize is the lowest size that is accepted.
	MinSize int `json:"min_size" check:"min=1"`
	// MaxSize is the highest size that is accepted.
	MaxSize int `json:"max_size" check:"min=1"`
	// Interval is how long to wait for a batch to fill, in seconds. Default 0.
	Interval time.Duration `json:"interval" check:"min=0"`
}

// Concurrency is a number of workers with its bounds.
type Concurrency struct {
	// Value is the number of transactions in flight. Default 1.
	Value int `json:"value" check:"min=1"`
	// Min is the lowest value that is accepted.
	Min int `json:"min" check:"min=1"`
	// Max is the highest value that is accepted.
	Max int `json:"max" check:"min=1"`
}

// EmptyQueue is the wait after consecutive empty fetches.
type EmptyQueue struct {
	// Backoff after the first empty fetch, in seconds; at least 0.01. Default 1.
	Backoff time.Duration `json:"backoff" check:"min=0"`
	// BackoffMultiplier is the growth from one empty fetch to the next. Default 2.
	BackoffMultiplier float64 `json:"backoff_multiplier" check:"min=1"`
	// BackoffCap is the longest wait, in seconds. 0 in documents, or Unbounded in Go, means no cap. Default 60, or backoff if
	// that is longer.
	BackoffCap time.Duration `json:"backoff_cap" check:"min=0"`
	// Interval is reserved and must not be set.
	Interval time.Duration `json:"interval" check:"reserved"`
}

// emptyQueueLimits are the defaults and bounds of the waits after empty fetches.
func emptyQueueLimits(l Limits) (backoff Range[time.Duration], multiplier Range[float64], longest Range[time.Duration]) {
	backoff = Range[time.Duration]{Default: time.Second, Min: MinEmptyBackoff, Max: maxDuration}
	multiplier = Range[float64]{Default: 2, Min: 1, Max: l.Multiplier.Max}
	longest = Range[time.Duration]{Default: time.Minute, Min: MinEmptyBackoff, Max: maxDuration}
	return backoff, multiplier, longest
}

// MinEmptyBackoff is the shortest wait after an empty fetch.
const MinEmptyBackoff = 10 * time.Millisecond

// stepFields are the common fields of the steps of consumers and producers.
type stepFields struct {
	path     string
	category *Category
	retry    *Retry
	limit    *Limit
}

func (c *Consumer) steps() []stepFields {
	s := &c.Steps
	return []stepFields{
		{"steps.fetch", &s.Fetch.Category, &s.Fetch.Retry, &s.Fetch.Limit},
		{"steps.process", &s.Process.Category, &s.Process.Retry, &s.Process.Limit},
		{"steps.success", &s.Success.Category, &s.Success.Retry, &s.Success.Limit},
		{"steps.exception", &s.Exception.Category, &s.Exception.Retry, &s.Exception.Limit},
	}
}

func (p *Producer) steps() []stepFields {
	s := &p.Steps
	return []stepFields{
		{"steps.produce", &s.Produce.Category, &s.Produce.Retry, &s.Produce.Limit},
		{"steps.success", &s.Success.Category, &s.Success.Retry, &s.Success.Limit},
		{"steps.exception", &s.Exception.Category, &s.Exception.Retry, &s.Exception.Limit},
	}
}

// steps normalises the steps of an engine. A step without a category takes the engine's.
func (n notes) steps(steps []stepFields, engine Category, l Limits, again bool) error {
	for _, s := range steps {
		*s.retry = s.retry.clone()
		if *s.category == "" && !again {
			*s.category = engine
		}
		if *s.category != "" && !again {
			n.category(s.category, s.retry)
		}
		if err := n.retry(s.path+".retry.", s.retry, l); err != nil {
			return err
		}
		n.limit(s.path+".limit", s.limit)
	}
	return nil
}

// Normalize returns a copy with every absent value at its default and every value inside its limits.
func (c Consumer) Normalize(l Limits) (Consumer, error) {
	c.Steps.Fetch.Extra = fields.Copy(c.Steps.Fetch.Extra)
	n := notes{meta: &Meta{}}
	n.loop(&c.Loop.Batch, &c.Loop.Concurrency)
	c.Loop.Timeout, c.Loop.TransactionTimeout, c.Loop.Limit = max(c.Loop.Timeout, 0), max(c.Loop.TransactionTimeout, 0), max(c.Loop.Limit, 0)
	q := &c.Loop.EmptyQueue
	backoff, multiplier, longest := emptyQueueLimits(l)
	fill(n, "loop.empty_queue.backoff", &q.Backoff, backoff)
	fill(n, "loop.empty_queue.backoff_multiplier", &q.BackoffMultiplier, multiplier)
	longest.Default = max(longest.Default, q.Backoff)
	fill(n, "loop.empty_queue.backoff_cap", &q.BackoffCap, longest)
	q.Interval = 0
	if err := n.steps(c.steps(), c.Category, l, c.normal); err != nil {
		return Consumer{}, err
	}
	c.normal = true
	return c, nil
}

// Normalize returns a copy with every absent value at its default and every value inside its limits.
func (p Producer) Normalize(l Limits) (Producer, error) {
	n := notes{meta: &Meta{}}
	n.loop(&p.Loop.Batch, &p.Loop.Concurrency)
	p.Loop.Timeout, p.Loop.TransactionTimeout, p.Loop.Limit = max(p.Loop.Timeout, 0), max(p.Loop.TransactionTimeout, 0), max(p.Loop.Limit, 0)
	if err := n.steps(p.steps(), p.Category, l, p.normal); err != nil {
		return Producer{}, err
	}
	p.normal = true
	return p, nil
}

func (n notes) loop(b *Batch, c *Concurrency) {
	within := func(path string, value *int, lowest, highest int) {
		r := Range[int]{Default: 1, Min: max(lowest, 1), Max: maxInt}
		if highest > 0 {
			r.Max = max(highest, r.Min)
		}
		r.Default = max(r.Default, r.Min)
		fill(n, path, value, r)
	}
	within("loop.batch.size", &b.Size, b.MinSize, b.MaxSize)
	within("loop.concurrency.value", &c.Value, c.Min, c.Max)
	b.Interval = max(b.Interval, 0)
}

const maxInt = 1<<31 - 1

// Validate is the strict reading: a *ValidationError with every violation, or nil.
func (c Consumer) Validate(l Limits) error { return violations(c.Check(l)).err() }

// Check is Validate with warnings.
func (c Consumer) Check(l Limits) []Violation {
	var v violations
	v.ranges("", reflect.ValueOf(c))
	v.loop(c.Loop.Batch, c.Loop.Concurrency)
	const empty = "loop.empty_queue"
	q := c.Loop.EmptyQueue
	backoff, multiplier, longest := emptyQueueLimits(l)
	limit(&v, empty+".backoff", q.Backoff, backoff)
	limit(&v, empty+".backoff_multiplier", q.BackoffMultiplier, multiplier)
	limit(&v, empty+".backoff_cap", q.BackoffCap, longest)
	v.order(empty, q.Backoff, q.BackoffCap, SurfaceStep)
	for _, s := range c.steps() {
		v.retry(s.path+".retry", *s.retry, l)
		v.limit(s.path+".limit", *s.limit)
	}
	return v
}

// Validate is the strict reading: a *ValidationError with every violation, or nil.
func (p Producer) Validate(l Limits) error { return violations(p.Check(l)).err() }

// Check is Validate with warnings.
func (p Producer) Check(l Limits) []Violation {
	var v violations
	v.ranges("", reflect.ValueOf(p))
	v.loop(p.Loop.Batch, p.Loop.Concurrency)
	for _, s := range p.steps() {
		v.retry(s.path+".retry", *s.retry, l)
		v.limit(s.path+".limit", *s.limit)
	}
	return v
}

func (v *violations) loop(b Batch, c Concurrency) {
	v.within("loop.batch.", count{"size", b.Size}, count{"min_size", b.MinSize}, count{"max_size", b.MaxSize})
	v.within("loop.concurrency.", count{"value", c.Value}, count{"min", c.Min}, count{"max", c.Max})
}

// count is an integer field; 0 is absent.
type count struct {
	name  string
	value int
}

// within checks a field of the object at path against the fields that bound it.
func (v *violations) within(path string, field, lowest, highest count) {
	given, value := field.value != 0, max(field.value, 1)
	switch {
	case lowest.value > 0 && highest.value > 0 && lowest.value > highest.value:
		v.add(path+lowest.name, fmt.Sprintf("%d is above %s %d", lowest.value, highest.name, highest.value), "exchange the two or widen them")
	case given && lowest.value > 0 && value < lowest.value:
		v.add(path+field.name, fmt.Sprintf("%d is below %s %d", value, lowest.name, lowest.value), fmt.Sprintf("write %d or more", lowest.value))
	case given && highest.value > 0 && value > highest.value:
		v.add(path+field.name, fmt.Sprintf("%d is above %s %d", value, highest.name, highest.value), fmt.Sprintf("write %d or less", highest.value))
	}
}
