package simulate

import (
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// Scenario is a world and what happens to it. Read one with [Parse].
type Scenario struct {
	// Version of the language; always 1.
	Version int `json:"version"`
	// Title says what the scenario shows.
	Title string `json:"title"`
	// Seed of all random numbers. Default 1.
	Seed int `json:"seed" check:"min=0"`
	// Duration of the simulation, in virtual time.
	Duration time.Duration `json:"duration" check:"positive,max=604800"`
	// Warmup is the time at the beginning that totals leave out. Default 0.
	Warmup time.Duration `json:"warmup" check:"min=0"`
	// Interval of the plots. Default a 120th of the duration.
	Interval time.Duration `json:"interval" check:"positive"`
	// Declared lists names that the policies use and code registers.
	Declared policyfile.Declared `json:"declared"`
	// Defaults apply to fields that a policy does not set, as in a policy document.
	Defaults ScenarioDefaults `json:"defaults"`
	// Budgets by name, as in a policy document. Every client has its own.
	Budgets map[string]policy.Budget `json:"budgets"`
	// Policies of calls by key, as in a policy document.
	Policies map[string]policy.Policy `json:"policies"`
	// Queues of jobs by name, as in a policy document.
	Queues map[string]policy.Queue `json:"queues"`
	// Jobs by type, as in a policy document.
	Jobs map[string]policy.Job `json:"jobs"`
	// Services by name.
	Services map[string]Service `json:"services"`
	// Clients by the name of their group.
	Clients map[string]Client `json:"clients"`
	// Faults by name.
	Faults map[string]Fault `json:"faults"`

	document *policyfile.Document
}

// ScenarioDefaults apply to the policies of a scenario.
type ScenarioDefaults struct {
	// Calls of services.
	Calls policyfile.CallDefaults `json:"calls"`
	// Jobs of clients that enqueue jobs.
	Jobs policy.Job `json:"jobs"`
}

// Service answers requests.
type Service struct {
	// Concurrency is the number of requests that are served at once; the others queue. Default no bound.
	Concurrency int `json:"concurrency" check:"min=1"`
	// Capacity is the number of requests per second that can begin to be served. Default no bound.
	Capacity float64 `json:"capacity" check:"positive"`
	// Latency is how long it takes to serve a request, without the time in the queue.
	Latency Latency `json:"latency"`
	// Queue holds the requests that wait to be served.
	Queue ServiceQueue `json:"queue"`
	// Errors is the share of requests that fail once they have been served. Default 0.
	Errors float64 `json:"errors" check:"min=0,max=1"`
	// Calls are the services that a request calls, in the order of their names, after its own latency. If one fails for good, the
	// request fails.
	Calls map[string]Downstream `json:"calls"`
}

// Downstream is a service's call of another one.
type Downstream struct {
	// Policy is the key of the call's policy. Default a single attempt.
	Policy string `json:"policy"`
}

// Latency is the distribution of a duration.
type Latency struct {
	// Distribution of the duration. Default constant.
	Distribution Distribution `json:"distribution"`
	// Mean of the duration.
	Mean time.Duration `json:"mean" check:"min=0"`
	// Deviation is the standard deviation of a normal or lognormal duration, and half the width of a uniform one.
	Deviation time.Duration `json:"deviation" check:"min=0"`
	// Shape of a pareto duration: the lower, the heavier its tail. Default 1.5.
	Shape float64 `json:"shape" check:"min=1.01"`
	// PerRequest is added for each request that the service serves at the time, this one included.
	PerRequest time.Duration `json:"per_request" check:"min=0"`
}

// Distribution is a kind of random distribution.
type Distribution string

// The distributions.
const (
	Constant    Distribution = "constant"
	Exponential Distribution = "exponential"
	Normal      Distribution = "normal"
	LogNormal   Distribution = "lognormal"
	Uniform     Distribution = "uniform"
	Pareto      Distribution = "pareto"
)

// Values lists the distributions.
func (Distribution) Values() []string {
	return []string{string(Constant), string(Exponential), string(Normal), string(LogNormal), string(Uniform), string(Pareto)}
}

// ServiceQueue is how requests wait.
type ServiceQueue struct {
	// Discipline is which request is served next. Default fifo.
	Discipline Discipline `json:"discipline"`
	// Limit is how many requests wait at most; further ones fail at once. Default no bound.
	Limit int `json:"limit" check:"min=1"`
	// MaxWait is how long a request waits at most; then it fails without having been served. Default no bound.
	MaxWait time.Duration `json:"max_wait" check:"positive"`
	// DropAbandoned drops waiting requests whose client has given up, instead of serving them.
	DropAbandoned bool `json:"drop_abandoned"`
}

// Discipline is the order in which waiting requests are served.
type Discipline string

// The disciplines.
const (
	FIFO   Discipline = "fifo"
	LIFO   Discipline = "lifo"
	Random Discipline = "random"
)

// Values lists the disciplines.
func (Discipline) Values() []string { return []string{string(FIFO), string(LIFO), string(Random)} }

// Client is a group of equal clients. Each has its own executor, with its own budgets, breakers and limits. With a job, the clients
// enqueue jobs, and workers call the service.
type Client struct {
	// Service that the clients call.
	Service string `json:"service"`
	// Policy is the key of their calls' policy. Default a single attempt.
	Policy string `json:"policy"`
	// Job makes each call a stored job.
	Job ClientJob `json:"job"`
	// Count is the number of clients. Default 1.
	Count int `json:"count" check:"min=1,max=100000"`
	// Rate is the number of calls per second of each client.
	Rate float64 `json:"rate" check:"positive,max=1000000000"`
	// Arrivals is how calls are spread over time. Default poisson.
	Arrivals Arrivals `json:"arrivals"`
	// Network is how long a request travels, and again its response. Default 0.
	Network Latency `json:"network"`
}

// ClientJob says how the jobs of a group of clients are run. The group has a store of its own. Policies are those of the type and the
// queue.
type ClientJob struct {
	// Type of the jobs.
	Type string `json:"type"`
	// Queue of the jobs. Default default.
	Queue string `json:"queue"`
	// Workers is the number of workers. Each has its own executor. Default 1.
	Workers int `json:"workers" check:"min=1,max=1000"`
	// Concurrency is the number of jobs that a worker runs at once. Default 100.
	Concurrency int `json:"concurrency" check:"min=1,max=1000"`
	// Lease of a claimed job, which its worker extends. Default 30s.
	Lease time.Duration `json:"lease" check:"positive,max=86400"`
}

// Arrivals is how calls are spread over time.
type Arrivals string

// The kinds of arrivals.
const (
	Poisson Arrivals = "poisson" // at random
	Regular Arrivals = "regular" // evenly
)

// Values lists the kinds of arrivals.
func (Arrivals) Values() []string { return []string{string(Poisson), string(Regular)} }

// Fault changes a service or the clients of a group for some time. Faults at the same time add up.
type Fault struct {
	// Service that the fault changes.
	Service string `json:"service"`
	// Client is the group of clients that the fault changes.
	Client string `json:"client"`
	// At is when the fault begins.
	At time.Duration `json:"at" check:"min=0"`
	// For is how long it lasts, and for a ramp how long it grows. Default to the end.
	For time.Duration `json:"for" check:"positive"`
	// Shape of the fault over time. Default step.
	Shape Shape `json:"shape"`
	// Errors is the share of the service's requests that fail.
	Errors float64 `json:"errors" check:"min=0,max=1"`
	// Latency multiplies the service's latency.
	Latency float64 `json:"latency" check:"positive,max=1000000"`
	// Slowdown divides the service's capacity and concurrency, which stay above 0.
	Slowdown float64 `json:"slowdown" check:"min=1,max=1000000"`
	// Down means that the service refuses every request at once, or that the workers of the clients' jobs are killed, and start
	// again at the end.
	Down bool `json:"down"`
	// Load multiplies the rate of the clients.
	Load float64 `json:"load" check:"positive,max=1000"`
	// Share is the share of the requests, or of the workers, that the fault hits. Default 1.
	Share float64 `json:"share" check:"positive,max=1"`
}

// Shape is how strong a fault is over time.
type Shape string

// The shapes.
const (
	Step  Shape = "step"  // in full from beginning to end
	Ramp  Shape = "ramp"  // grows evenly, then stays in full
	Spike Shape = "spike" // grows evenly to the middle, then falls evenly
)

// Values lists the shapes.
func (Shape) Values() []string { return []string{string(Step), string(Ramp), string(Spike)} }
