package job

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/secrets"
)

// bucketPrefix returns what the names of the buckets of a limit begin with. Its first letter says what stores must know of a
// bucket without its limit: r counts starts, s keeps the places of jobs that wait for a retry, b does both, and c neither.
func bucketPrefix(kind string, id int64) string { return kind + strconv.FormatInt(id, 10) + " " }

// keeps reports whether jobs keep their place in a bucket while they wait for a retry.
func keeps(bucket string) bool { return bucket[0] == 's' || bucket[0] == 'b' }

// rated reports whether the starts of the jobs of a bucket are counted.
func rated(bucket string) bool { return bucket[0] == 'r' || bucket[0] == 'b' }

// maxBucketKey is the length in bytes from which on the hash of a key takes its place, as it does for a key with control
// characters.
const maxBucketKey = 256

// bucketKey returns the fields of a key with their values, in the grammar of filters. A value that the job does not have is
// the empty text, and so is one that is neither a text nor a number nor a boolean. The hash of a secret takes its place.
func bucketKey(key []string, r *Record) string {
	var terms filter.Terms
	for _, field := range key {
		name, path, _ := strings.Cut(field, ".")
		value := ""
		switch name {
		case FieldQueue:
			value = r.Queue
		case FieldType:
			value = r.Type
		case FieldMeta:
			value = r.Meta[path]
		case FieldPayload:
			value = payloadText(r.Payload, path)
		}
		if value != "" && new(secrets.Redaction).Hides(path, value) {
			value = hashed(value)
		}
		terms = append(terms, filter.Term{Field: name, Path: path, Values: filter.Exactly(value)})
	}
	text := terms.String()
	if len(text) > maxBucketKey || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return hashed(text)
	}
	return text
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func splitBucket(name string) (id int64, key string) {
	number, key, _ := strings.Cut(name[1:], " ")
	id, _ = strconv.ParseInt(number, 10, 64)
	return id, key
}

// Bucket is the state of a bucket as stores keep it. One without places, waiting jobs and starts to remember need not be kept.
type Bucket struct {
	Name      string
	Held      int       // places of ready and running jobs, and those that jobs keep through a retry
	Unstarted int       // of them, those of jobs that have not started since they got them; only where starts are counted
	Waiting   int       // jobs in the line
	Next      time.Time // where starts are counted: when the last of them would have come at an even pace, plus one step
}

// Idle reports whether the bucket need not be kept.
func (b *Bucket) Idle(now time.Time) bool { return b.Held == 0 && b.Waiting == 0 && !b.Next.After(now) }

// start counts a start at a time. This is the generic cell rate algorithm (ITU-T I.371): with count starts per period and a
// burst, no period has more than count + burst starts.
func (b *Bucket) start(l *gateLimit, at time.Time) {
	b.Unstarted = max(b.Unstarted-1, 0)
	if l == nil {
		return
	}
	if b.Next.Before(at) {
		b.Next = at
	}
	b.Next = b.Next.Add(l.step)
}

// starts returns how many more places the rate allows now: the starts that it allows, less the places that were given and not
// yet used for one. What is allowed only grows until the next start, so that whoever starts later stays within the rate.
func (b *Bucket) starts(l *gateLimit, now time.Time) int {
	allowed := l.Rate.Burst
	if ahead := b.Next.Sub(now); ahead > 0 {
		allowed -= int((ahead + l.step - 1) / l.step)
	}
	return max(allowed-b.Unstarted, 0)
}

// Due returns when the rate gives the bucket's next place, or zero if time alone gives none; for a bucket without jobs, when it
// can be forgotten.
func (g *Gate) Due(b *Bucket, now time.Time) time.Time {
	l := g.limit(b.Name)
	switch {
	case !rated(b.Name):
		return time.Time{}
	case b.Held == 0 && b.Waiting == 0:
		return b.Next
	case l == nil, b.Waiting == 0, b.starts(l, now) > 0, b.Unstarted >= l.Rate.Burst:
		return time.Time{}
	}
	return b.Next.Add(-time.Duration(l.Rate.Burst-b.Unstarted-1) * l.step)
}

// without returns the names of a list that are not in another.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(other, name) })
}
