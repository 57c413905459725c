package sharing

import (
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/striped"
)

// Lot is the part of a pool that this process holds and spends. It is safe for concurrent use and takes no lock.
//
// Tokens are neither made nor spent twice: a token is in the pool, in one lot, or on its way. So in any window the processes spend at
// most what the pool held and was given in it, and one lot each: for a retry ratio, ratio · calls + burst + n · lot. What a process holds
// beyond a lot takes room in the pool, so that the same holds for its equal share of a pool that time refills.
type Lot struct {
	tokens atomic.Int64 // in units; negative while the process owes the pool
	size   atomic.Int64 // the most that it may hold: a lot, or an equal share of a pool that time refills
	earn   atomic.Int64 // that a call adds
	low    atomic.Int64 // below it, the next tokens are fetched
	dry    atomic.Bool  // the pool had less than was asked for; the next exchange comes with time
	away   atomic.Bool  // the store is
	_      [24]byte     // calls that earn read the fields above, and write none of them while the lot is full

	terms   atomic.Pointer[Terms]
	calls   striped.Counter // that found the lot full: the pool gets what they earn
	spent   atomic.Int64    // since the last exchange
	short   atomic.Int64    // the highest cost that was refused for want of tokens
	least   atomic.Int64    // of size: a lot, or the highest cost that was ever refused
	interim interim
	users   atomic.Int64 // of the pool, this process included
	link    *Link

	share
}

// interim is what a lot refilled by itself while the store was away.
type interim struct {
	at      atomic.Int64 // of the last refill, since epoch
	accrued atomic.Int64 // so that the pool can be charged for it
}

// share is what only the hub's goroutine uses.
type share struct {
	owed    int64  // the advance, until the first exchange settles it
	leaving bool   // everything is to be given back
	counted uint64 // calls whose earnings are in back, or were given to the pool
	demand  int64  // twice what was spent before the last exchange, falling by half while nothing is
	begun   bool   // Change has run since the last Settle
	back    int64  // tokens on their way to the pool; negative if the pool is charged
	granted int64  // tokens on their way from the pool
	lacks   int64  // tokens that attempts need, but the pool does not have
}

// epoch is the start of the monotonic readings.
var epoch = time.Now()

// NewLot makes a process's lot of the pool of that name. It starts with one lot in advance, which the first exchange settles with the
// pool.
func NewLot(h *Hub, name string, t Terms) *Lot {
	argument.Need(h != nil, "sharing: NewLot: the hub")
	l := newLot(t)
	l.link = h.Link(name)
	l.link.Join(member{l})
	return l
}

func newLot(t Terms) *Lot {
	l := &Lot{}
	l.SetTerms(t)
	l.users.Store(1)
	l.owed = l.size.Load()
	l.tokens.Store(l.owed)
	l.low.Store(l.owed / 2)
	return l
}

// SetTerms changes the terms. Tokens stay.
func (l *Lot) SetTerms(t Terms) {
	l.terms.Store(&t)
	l.earn.Store(units(t.Earn))
	l.least.Store(units(t.Lot()))
	l.size.Store(units(t.Lot()))
}

// Leave gives the tokens back, in the background. The lot stays usable, but gets no more of the pool's tokens.
func (l *Lot) Leave() { l.link.Leave() }

// Earn adds what one call earns.
func (l *Lot) Earn() {
	if l.tokens.Load() < l.size.Load() {
		l.tokens.Add(l.earn.Load())
		return
	}
	l.calls.Add()
}

// Spend takes tokens, or reports that there are not enough.
func (l *Lot) Spend(tokens int) bool {
	cost := int64(min(tokens, maxTokens)) * Token
	if !l.spend(cost) {
		if !l.away.Load() || !l.accrue() || !l.spend(cost) {
			l.want(cost)
			return false
		}
	}
	l.spent.Add(cost)
	if l.tokens.Load() < l.low.Load() && !l.dry.Load() {
		l.link.Wake()
	}
	return true
}

func (l *Lot) spend(cost int64) bool {
	for {
		tokens := l.tokens.Load()
		left := min(tokens, l.size.Load()) - cost
		if left < 0 {
			return false
		}
		if l.tokens.CompareAndSwap(tokens, left) {
			return true
		}
	}
}

// want notes the cost of a refused attempt. A lot that is smaller grows to it.
func (l *Lot) want(cost int64) {
	if cost > l.terms.Load().capacity() {
		return
	}
	for _, highest := range []*atomic.Int64{&l.short, &l.least, &l.size} {
		for {
			known := highest.Load()
			if cost <= known || highest.CompareAndSwap(known, cost) {
				break
			}
		}
	}
	if !l.dry.Load() {
		l.link.Wake()
	}
}

// accrue adds the process's share of what time refills while the store is away.
func (l *Lot) accrue() bool {
	now, at := int64(time.Since(epoch)), l.interim.at.Load()
	refill := l.terms.Load().Refill / float64(l.users.Load())
	room := l.size.Load() - l.tokens.Load()
	gain := int64(min(refill*float64(now-at), float64(room)))
	if gain <= 0 || !l.interim.at.CompareAndSwap(at, now) {
		return gain > 0 // another attempt has refilled the lot
	}
	l.tokens.Add(gain)
	l.interim.accrued.Add(gain)
	return true
}

// member is a lot's part in the exchanges.
type member struct{ *Lot }

// Due reports whether there is something to exchange: what was spent, refused or earned, or what is held for no demand. A process always
// follows a pool that time refills, because it holds a share of it which others may need.
func (l member) Due() bool {
	return l.terms.Load().Refill > 0 || l.owed != 0 || l.leaving || l.begun || l.back != 0 || l.demand > Token || l.spent.Load() > 0 || l.short.Load() > 0 ||
		l.interim.accrued.Load() > 0 || l.calls.Sum() != l.counted
}

// Change gives the pool what the lot has beyond its target, and takes what it lacks. The target is what attempts need, and at least an
// equal share of a pool that time refills while no other process lacks tokens.
func (l member) Change(now time.Time, data []byte) []byte {
	t := *l.terms.Load()
	p := readPool(now, data, t)
	id, before := l.link.id, p.Tokens
	changed := t.Refill > 0 && p.use(id, now, l.leaving)
	l.users.Store(int64(max(len(p.Users), 1)))
	share := p.share(t)
	size := max(l.least.Load(), share)
	need := min(l.need(t), size)
	target := need
	if !l.leaving && !p.lacking(id) {
		target = max(need, share)
	}
	l.collect(target, t)
	l.size.Store(size)
	held := l.tokens.Load() - l.owed
	changed = note(&p.Beyond, id, l.beyond(held, t)) || changed
	p.give(l.back, t)
	l.granted = p.take(max(target-held, 0), t)
	l.lacks = max(need-held-l.granted, 0)
	if t.Refill > 0 {
		changed = note(&p.Beyond, id, l.beyond(held+l.granted, t)) || changed
		changed = note(&p.Lacks, id, l.lacks) || changed
	}
	if !changed && p.Tokens == before {
		return nil
	}
	return p.encode()
}

// beyond returns what a process that holds so many tokens holds beyond a lot of a pool that time refills.
func (l member) beyond(held int64, t Terms) int64 {
	if t.Refill <= 0 || l.leaving {
		return 0
	}
	return max(held-units(t.Lot()), 0)
}

// need returns how many tokens the process's attempts need.
func (l member) need(t Terms) int64 {
	if !l.begun {
		l.begun = true
		l.demand = max(2*l.spent.Swap(0), 2*l.short.Swap(0), l.demand/2)
	}
	if l.leaving {
		return 0
	}
	floor := int64(Token)
	if t.capacity() < 2*Token*l.users.Load() {
		floor = 0 // a process without demand must not hold a large part of the pool
	}
	return max(l.demand, floor)
}

// collect moves into back what the pool gets.
func (l member) collect(target int64, t Terms) {
	calls := l.calls.Sum()
	earned := float64(calls-l.counted) * float64(l.earn.Load())
	l.counted = calls
	l.back = min(l.back+int64(min(earned, float64(t.capacity()))), t.capacity()) - l.interim.accrued.Swap(0)
	for {
		tokens := l.tokens.Load()
		surplus := min(tokens, l.size.Load()) - l.owed - target
		if surplus <= 0 {
			return
		}
		if l.tokens.CompareAndSwap(tokens, tokens-surplus) {
			l.back += surplus
			return
		}
	}
}

// Settle ends an exchange.
func (l member) Settle(err error) {
	if err != nil {
		l.back, l.granted = min(l.back, 0), 0 // tokens on their way may be lost, and a charge may come twice
		if !l.away.Load() {
			l.interim.at.Store(int64(time.Since(epoch)))
			l.away.Store(true)
		}
	} else {
		l.tokens.Add(l.granted - l.owed)
		l.dry.Store(l.lacks > 0)
		l.low.Store((l.tokens.Load() + 1) / 2)
		l.back, l.granted, l.owed = 0, 0, 0
		l.away.Store(false)
	}
	l.begun = false
}

// Leave makes the next exchange the last.
func (l member) Leave() { l.leaving = true }
