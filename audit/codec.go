package audit

import "bytes"

// codec takes the members of an event one way: it writes them as canonical JSON, reads them from it, or packs or unpacks
// them. Exactly one of w, r and p is set.
type codec struct {
	w *encoder
	r *lineReader
	p *packer

	// brief leaves out what replay and statistics do not need. Packing is always brief.
	brief bool

	at     cursor // in the object that is being read
	failed []byte // the member that could not be read

	// A brief reader interns symbols, and leaves the IDs of the event and of its work in the line.
	intern   *interner
	id, work []byte
}

// cursor is a place in an object that is being read.
type cursor struct {
	name  []byte // of the last member
	ahead bool   // the value of that member has not been read
	begun bool
	ended bool
}

// find reports whether the object that is being read has a member, and then stands before its value. It skips the members
// whose names come before.
func (c *codec) find(name string) bool {
	name = name[len(`,"`) : len(name)-len(`":`)]
	for c.at.ahead || c.next() {
		if string(c.at.name) == name {
			c.at.ahead = false
			return true
		}
		if string(c.at.name) > name {
			return false
		}
		c.skip()
	}
	return false
}

// next reads the name of the object's next member. Names are in order, each once.
func (c *codec) next() bool {
	first := !c.at.begun
	c.at.begun = true
	if c.at.ended || !c.r.more('}', &first) {
		c.at.ended = true
		return false
	}
	name := c.r.name()
	if bytes.Compare(name, c.at.name) <= 0 {
		c.r.fail()
	}
	c.at.name, c.at.ahead = name, !c.r.bad
	return c.at.ahead
}

func (c *codec) skip() {
	c.r.value()
	c.at.ahead = false
}

// read reads an object of known members, and skips others.
func read[T any](c *codec, v *T, members func(*T, *codec)) {
	outer := c.at
	c.at = cursor{}
	c.r.open('{')
	members(v, c)
	for c.at.ahead || c.next() {
		c.skip()
	}
	if c.r.bad && c.failed == nil {
		c.failed = c.at.name
	}
	c.at = outer
}

// write appends an object.
func write[T any](c *codec, v *T, members func(*T, *codec)) {
	start := len(c.w.b)
	members(v, c)
	c.w.end(start)
}

// object is a member with members of its own. A reader fills what *v points to already, and sets *v to nil where the member
// is missing.
func object[T any](c *codec, name string, v **T, members func(*T, *codec)) {
	switch {
	case c.w != nil:
		if *v != nil {
			c.w.name(name)
			write(c, *v, members)
		}
	case c.r != nil:
		if !c.find(name) {
			*v = nil
			return
		}
		if *v == nil {
			*v = new(T)
		}
		read(c, *v, members)
	case present(c.p, v):
		members(*v, c)
	}
}

// objects is a list of objects. A reader reuses the memory of *v.
func objects[T any](c *codec, name string, v *[]T, members func(*T, *codec)) {
	elements(c, name, v, func(x *T) {
		switch {
		case c.w != nil:
			write(c, x, members)
		case c.r != nil:
			read(c, x, members)
		default:
			members(x, c)
		}
	})
}

// elements is a list; element takes each of its elements.
func elements[T any](c *codec, name string, v *[]T, element func(x *T)) {
	switch {
	case c.w != nil:
		if len(*v) == 0 {
			return
		}
		c.w.name(name)
		c.w.b = append(c.w.b, '[')
		for i := range *v {
			c.w.comma(i)
			element(&(*v)[i])
		}
		c.w.b = append(c.w.b, ']')
	case c.r != nil:
		*v = (*v)[:0]
		if !c.find(name) {
			return
		}
		c.r.open('[')
		for first := true; c.r.more(']', &first); {
			var empty T
			*v = append(*v, empty)
			element(&(*v)[len(*v)-1])
		}
	default:
		n := len(*v)
		packNumber(c.p, &n)
		if c.p.reading && n > 0 {
			*v = make([]T, n)
		}
		for i := range *v {
			element(&(*v)[i])
		}
	}
}
