package policy

import "strings"

// Key names an operation, for example {user-service GetUser}. Keys own breakers, latency digests and metric labels, so
// they must be of low cardinality: an operation, never a request, tenant or user. The struct itself is the map key.
type Key struct {
	Namespace string // may be empty
	Name      string
}

// ParseKey reads "namespace.name": s is trimmed and split at its first dot. With no dot, or with nothing on one side of
// it, the whole string is the name, so that ParseKey(s).String() is always s trimmed.
func ParseKey(s string) Key {
	s = strings.TrimSpace(s)
	namespace, name, found := strings.Cut(s, ".")
	if !found || namespace == "" || name == "" {
		return Key{Name: s}
	}
	return Key{Namespace: namespace, Name: name}
}

// String returns "namespace.name", or only the name if there is no namespace.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "." + k.Name
}

// IsZero reports whether the key is empty.
func (k Key) IsZero() bool { return k == Key{} }

// Keys of jobs and pipeline steps have their own namespaces, so that they never equal a call's key.
const (
	jobNamespace      = "job/"
	consumerNamespace = "consumer/"
	producerNamespace = "producer/"
)

// JobKey returns the key of a job type in a queue. The order is that of the key's text, job/<queue>.<type>.
func JobKey(queue, jobType string) Key { return Key{Namespace: jobNamespace + queue, Name: jobType} }

// ConsumerKey returns the key of a step of a named consumer.
func ConsumerKey(consumer, step string) Key {
	return Key{Namespace: consumerNamespace + consumer, Name: step}
}

// ProducerKey returns the key of a step of a named producer.
func ProducerKey(producer, step string) Key {
	return Key{Namespace: producerNamespace + producer, Name: step}
}

// Surface returns the kind of work that the key names, by its namespace.
func (k Key) Surface() Surface {
	switch {
	case strings.HasPrefix(k.Namespace, jobNamespace):
		return SurfaceJob
	case strings.HasPrefix(k.Namespace, consumerNamespace), strings.HasPrefix(k.Namespace, producerNamespace):
		return SurfaceStep
	}
	return SurfaceCall
}

// Surface is the kind of work that a policy is applied to.
type Surface string

// The three surfaces.
const (
	SurfaceCall Surface = "call" // a function in this process
	SurfaceJob  Surface = "job"  // a stored row
	SurfaceStep Surface = "step" // one step of a pipeline
)
