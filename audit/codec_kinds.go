package audit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// The kinds of members. Each function writes a member unless it is empty, reads it where it is there, or packs or unpacks
// it; those that begin with "must" write it in any case. The checks for empty members are apart so that they are inlined:
// most members of most events are empty.

func text[S ~string](c *codec, name string, s *S) {
	if *s == "" && c.w != nil || c.brief {
		return
	}
	mustString(c, name, s)
}

func symbol[S ~string](c *codec, name string, s *S) {
	if *s != "" || c.w == nil {
		mustString(c, name, s)
	}
}

// mustString takes a text or symbol. It writes the member itself, with as few calls as it can, because strings are most of an
// event.
func mustString[S ~string](c *codec, name string, s *S) {
	w := c.w
	if w == nil {
		readString(c, name, s)
		return
	}
	at := len(w.b)
	end := at + len(name) + len(*s) + len(`""`)
	if end > cap(w.b) {
		w.b = slices.Grow(w.b, end-at)
	}
	w.b = w.b[:end]
	b := w.b[at:]
	copy(b, name)
	b = b[len(name):]
	b[0], b[len(b)-1] = '"', '"'
	if !copyPlain(b[1:], string(*s)) {
		w.b = appendString(w.b[:at+len(name)], string(*s))
	}
}

// readString reads a text or symbol, or packs or unpacks a symbol.
func readString[S ~string](c *codec, name string, s *S) {
	switch {
	case c.p != nil:
		packSymbol(c.p, s)
	case !c.find(name):
	case c.brief:
		*s = S(c.intern.name(c.r.text()))
	default:
		*s = S(c.r.text())
	}
}

// workID is the ID of the work.
func (c *codec) workID(name string, s *string) {
	if !c.brief {
		text(c, name, s)
	} else if c.p == nil && c.find(name) {
		c.work = c.r.text()
	}
}

// mustEventID is the ID of the event.
func (c *codec) mustEventID(name string, s *string) {
	if !c.brief {
		mustString(c, name, s)
	} else if c.p == nil && c.find(name) {
		c.id = c.r.text()
	}
}

// hash is the event's own hash. Sealing sets it, so the encoder notes where it is.
func (c *codec) hash(name string, s *string) {
	if c.w != nil {
		c.w.hash = len(c.w.b)
	}
	text(c, name, s)
}

// prevHash is like hash.
func (c *codec) prevHash(name string, s *string) {
	if c.w != nil {
		c.w.before = len(c.w.b)
	}
	text(c, name, s)
}

func integer[N ~int | ~int64](c *codec, name string, n *N) {
	if *n != 0 || c.w == nil {
		mustInteger(c, name, n)
	}
}

func mustInteger[N ~int | ~int64](c *codec, name string, n *N) {
	switch {
	case c.w != nil:
		c.w.b = strconv.AppendInt(append(c.w.b, name...), int64(*n), 10)
	case c.p != nil:
		packNumber(c.p, n)
	case c.find(name):
		*n = N(c.r.integer())
	}
}

func (c *codec) unsigned(name string, n *uint64) {
	if *n != 0 || c.w == nil {
		c.mustUnsigned(name, n)
	}
}

func (c *codec) mustUnsigned(name string, n *uint64) {
	switch {
	case c.w != nil:
		c.w.b = strconv.AppendUint(append(c.w.b, name...), *n, 10)
	case c.p != nil:
		c.p.uint64(n)
	case c.find(name):
		if *n = c.r.unsigned(); *n > exact {
			c.r.fail()
		}
	}
}

// quoted is a number that readers of JSON may not be able to hold.
func (c *codec) quoted(name string, n *uint64) {
	switch {
	case c.w != nil:
		if *n != 0 {
			c.w.b = append(strconv.AppendUint(append(append(c.w.b, name...), '"'), *n, 10), '"')
		}
	case c.p != nil:
		c.p.uint64(n)
	case c.find(name):
		*n = c.r.quoted()
	}
}

func (c *codec) nanos(name string, n *Nanos) {
	if *n != 0 || c.w == nil {
		c.mustNanos(name, n)
	}
}

func (c *codec) mustNanos(name string, n *Nanos) {
	switch {
	case c.w != nil:
		c.w.b = appendNanos(append(c.w.b, name...), *n)
	case c.p != nil:
		packNumber(c.p, n)
	case c.find(name):
		*n = c.r.nanos()
	}
}

// optionalNanos tells 0 from nothing. A reader sets what *n points to already.
func (c *codec) optionalNanos(name string, n **Nanos) {
	switch {
	case c.w != nil:
		if *n != nil {
			c.mustNanos(name, *n)
		}
	case c.p != nil:
		if present(c.p, n) {
			packNumber(c.p, *n)
		}
	case !c.find(name):
		*n = nil
	default:
		if *n == nil {
			*n = new(Nanos)
		}
		**n = c.r.nanos()
	}
}

func (c *codec) flag(name string, b *bool) {
	if *b || c.w == nil {
		c.takeFlag(name, b)
	}
}

func (c *codec) takeFlag(name string, b *bool) {
	switch {
	case c.w != nil:
		c.w.b = append(append(c.w.b, name...), "true"...)
	case c.p != nil:
		c.p.bool(b)
	case c.find(name):
		*b = c.r.boolean()
	}
}

// optionalFlag tells false from nothing.
func (c *codec) optionalFlag(name string, b **bool) {
	switch {
	case c.brief:
	case c.w != nil:
		if *b != nil {
			c.w.name(name)
			c.w.b = strconv.AppendBool(c.w.b, **b)
		}
	case c.find(name):
		*b = new(c.r.boolean())
	}
}

func (c *codec) float(name string, f *float64) {
	switch {
	case c.brief:
	case c.w != nil:
		if *f != 0 {
			c.w.name(name)
			c.w.b = appendNumber(c.w.b, *f)
		}
	case c.find(name):
		*f = c.r.float()
	}
}

func (c *codec) mustTime(name string, t *time.Time) {
	switch {
	case c.w != nil:
		c.w.b = append(t.AppendFormat(append(append(c.w.b, name...), '"'), time.RFC3339Nano), '"')
	case c.r != nil && c.find(name):
		*t = c.r.time()
	}
}

// document is JSON. A brief reader leaves it in the line.
func (c *codec) document(name string, d *json.RawMessage) {
	switch {
	case c.w != nil:
		if len(*d) > 0 {
			c.w.name(name)
			c.w.b = append(c.w.b, *d...)
		}
	case c.r != nil && c.find(name):
		if *d = c.r.value(); !c.brief {
			*d = bytes.Clone(*d)
		}
	}
}

func (c *codec) texts(name string, m *map[string]string) {
	switch {
	case c.brief:
	case c.w != nil:
		c.w.texts(name, *m)
	case c.find(name):
		c.r.open('{')
		for first := true; c.r.more('}', &first); {
			if *m == nil {
				*m = map[string]string{}
			}
			k := string(c.r.text())
			c.r.expect(':')
			(*m)[k] = string(c.r.text())
		}
	}
}

func (c *codec) integers(name string, v *[]int) {
	elements(c, name, v, func(n *int) {
		switch {
		case c.w != nil:
			c.w.b = strconv.AppendInt(c.w.b, int64(*n), 10)
		case c.p != nil:
			packNumber(c.p, n)
		default:
			*n = int(c.r.integer())
		}
	})
}

// list is a list of texts.
func list[S ~string](c *codec, name string, v *[]S) {
	if c.brief {
		return
	}
	elements(c, name, v, func(s *S) {
		if c.w != nil {
			c.w.b = appendString(c.w.b, string(*s))
		} else {
			*s = S(c.r.text())
		}
	})
}
