package sharing

import (
	"encoding/json"
	"math"
	"time"
)

// Token is one token in the units that pools and lots count in, so that a share of a token is exact.
const Token = 1_000_000_000

const (
	maxTokens = 1_000_000_000          // of a pool: far from what int64 holds in units
	ahead     = 100 * time.Millisecond // of a pool's refill that may be lent; the demand of fast limits comes in lots of that length
	userTime  = 30 * time.Second       // after which a silent process no longer counts
	seen      = userTime / 3           // how often a process that only stays tells so
	putBack   = time.Second            // a state from further ahead means that the store's clock was put back
	lotShare  = 10                     // a lot is at most one tenth of the capacity
)

// Terms are the terms of a pool, from a document.
type Terms struct {
	Capacity float64 // tokens that the pool holds at most
	Refill   float64 // tokens that each second adds
	Earn     float64 // tokens that each call adds
}

func (t Terms) capacity() int64 { return units(t.Capacity) }

// Lot is the most tokens that one process may hold in addition to the capacity: a tenth of the capacity or of a second's refill, and at
// least one.
func (t Terms) Lot() float64 {
	return max(t.Capacity/lotShare, t.Refill*ahead.Seconds(), 1)
}

// units converts tokens to units, rounded down.
func units(tokens float64) int64 {
	if !(tokens > 0) {
		return 0
	}
	tokens = min(tokens, maxTokens)
	nearest := math.Round(tokens * Token) // 0.29·10⁹ is 289,999,999.99… in float64
	if nearest/Token > tokens {
		nearest--
	}
	return int64(nearest)
}

// pool is the state of a shared budget or rate in the store.
type pool struct {
	Tokens int64 `json:"tokens"` // in units; negative while processes owe tokens
	At     int64 `json:"at"`     // of the last refill, in nanoseconds since 1970 by the store's clock
	// Users are the processes in use, with the time of their last exchange in nanoseconds. Only pools that time refills have them.
	Users map[string]int64 `json:"users,omitempty"`
	// Beyond is what these processes hold beyond one lot, at most, in units. It leaves that much less room in the pool.
	Beyond map[string]int64 `json:"beyond,omitempty"`
	// Lacks is what they need and did not get, in units. While a process lacks tokens, the others keep only what they need.
	Lacks map[string]int64 `json:"lacks,omitempty"`
}

// readPool decodes a state and refills it. A limit without a state, or with one that cannot be read, starts full.
func readPool(now time.Time, data []byte, t Terms) pool {
	var p pool
	if data == nil || json.Unmarshal(data, &p) != nil {
		p = pool{Tokens: t.capacity(), At: now.UnixNano()}
	}
	elapsed := now.UnixNano() - p.At
	switch {
	case elapsed < -int64(putBack): // otherwise the pool would not be refilled until the clock has caught up
		p.At = now.UnixNano()
	case elapsed > 0:
		if t.Refill > 0 {
			p.Tokens += int64(min(t.Refill*float64(elapsed), float64(2*t.capacity()))) // tokens/s · ns is units
		}
		p.At += elapsed
	}
	p.Tokens = min(p.Tokens, p.room(t))
	return p
}

// room returns how many tokens the pool may hold. What processes hold beyond a lot each counts as if it were in the pool, so that the pool
// and all lots hold at most the capacity and one lot for each process.
func (p *pool) room(t Terms) int64 {
	room := t.capacity()
	for _, held := range p.Beyond {
		room -= held
	}
	return room
}

// give adds tokens, or takes those that were spent in advance.
func (p *pool) give(tokens int64, t Terms) {
	p.Tokens = max(min(p.Tokens+tokens, p.room(t)), -t.capacity())
}

// take grants at most so many tokens. Whole ones, since a process cannot spend less, unless it needs less.
func (p *pool) take(wanted int64, t Terms) int64 {
	granted := max(min(wanted, p.Tokens+units(t.Refill*ahead.Seconds())), 0)
	if granted < wanted {
		granted -= granted % Token
	}
	p.Tokens -= granted
	return granted
}

// use notes that a process uses the pool, or no longer does, and drops those that have become silent.
func (p *pool) use(id string, now time.Time, leaves bool) (changed bool) {
	at := now.UnixNano()
	for user, last := range p.Users {
		if last-at > int64(putBack) { // the store's clock was put back
			p.Users[user], changed = at, true
		}
		if at-last > int64(userTime) || user == id && leaves {
			delete(p.Users, user)
			delete(p.Beyond, user)
			delete(p.Lacks, user)
			changed = true
		}
	}
	if last, known := p.Users[id]; !leaves && (!known || at-last > int64(seen)) {
		if p.Users == nil {
			p.Users = map[string]int64{}
		}
		p.Users[id] = at
		changed = true
	}
	return changed
}

// share returns a process's equal share of the capacity, in whole tokens. A pool that only calls fill does not know its processes.
func (p *pool) share(t Terms) int64 {
	if t.Refill <= 0 {
		return 0
	}
	share := t.capacity() / int64(max(len(p.Users), 1))
	return share - share%Token
}

// lacking reports whether a process other than id lacks tokens.
func (p *pool) lacking(id string) bool {
	_, own := p.Lacks[id]
	return len(p.Lacks) > 1 || len(p.Lacks) == 1 && !own
}

// note sets a process's entry, and reports whether that changed it. Zero is no entry.
func note(entries *map[string]int64, id string, n int64) (changed bool) {
	if (*entries)[id] == n {
		return false
	}
	if n == 0 {
		delete(*entries, id)
		return true
	}
	if *entries == nil {
		*entries = map[string]int64{}
	}
	(*entries)[id] = n
	return true
}

func (p *pool) encode() []byte {
	data, err := json.Marshal(p)
	if err != nil {
		panic("sharing: encode a pool: " + err.Error()) // it holds only numbers and strings
	}
	return data
}
