package classify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// Family names the classes of one kind of error. Integrations and stores export theirs through a Classes function; [Custom]
// makes a family for a program's own class.
type Family struct {
	// Names lists every class that Of can answer, and their parents. A policy that lists any other class is reported.
	Names []policy.Class
	// Parent is a wider class to which all classes of the family belong, in addition to the parents that package policy knows.
	Parent policy.Class
	// Of returns the most specific class of err, or "".
	Of func(err error) policy.Class
}

// Custom makes a family of one class, optionally inside a wider one. A document that uses the class must list it under
// declared.classes. A nil match panics.
func Custom(name, parent policy.Class, match func(error) bool) Family {
	argument.Need(match != nil, "classify: Custom: match")
	return Family{Names: []policy.Class{name}, Parent: parent, Of: func(err error) policy.Class {
		if match(err) {
			return name
		}
		return ""
	}}
}

// Is matches errors that errors.Is finds target in.
func Is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// As matches errors that have an E in their tree.
func As[E error]() func(error) bool {
	return func(err error) bool {
		_, ok := errors.AsType[E](err)
		return ok
	}
}

// Set is the families that an executor knows.
type Set []Family

// Has reports whether any family can answer the class or a part of it.
func (s Set) Has(c policy.Class) bool {
	within := func(name policy.Class) bool { return name.Within(c) }
	return slices.ContainsFunc(s, func(f Family) bool { return within(f.Parent) || slices.ContainsFunc(f.Names, within) })
}

// Of lists the most specific classes of err, one per family at most.
func (s Set) Of(err error) []Match {
	if err == nil {
		return nil
	}
	var list []Match
	for _, f := range s {
		if c := f.Of(err); c != "" {
			list = append(list, Match{Class: c, Parent: f.Parent})
		}
	}
	return list
}

// Match is a class of an error, with the parent that its family gives it.
type Match struct {
	// Name of the class.
	Class policy.Class `json:"class"`
	// Wider class.
	Parent policy.Class `json:"parent,omitempty"`
}

// Within reports whether the match lies in the class wide.
func (m Match) Within(wide policy.Class) bool { return m.Class.Within(wide) || m.Parent.Within(wide) }

// Builtin returns the families that need only the standard library: timeout and canceled, network and its parts.
func Builtin() Set {
	return Set{
		{Names: []policy.Class{policy.ClassTimeout, policy.ClassCanceled}, Of: endOf},
		{Names: []policy.Class{
			policy.ClassNetwork, policy.ClassDNS, policy.ClassConnectionRefused,
			policy.ClassConnectionReset, policy.ClassEOF, policy.ClassTLS,
		}, Of: networkOf},
	}
}

func endOf(err error) policy.Class {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return policy.ClassTimeout
	}
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		return policy.ClassTimeout
	}
	if errors.Is(err, context.Canceled) {
		return policy.ClassCanceled
	}
	return ""
}

func networkOf(err error) policy.Class {
	if isTLS(err) {
		return policy.ClassTLS
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return policy.ClassDNS
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return policy.ClassConnectionRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return policy.ClassConnectionReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return policy.ClassEOF
	}
	if isNetwork(err) {
		return policy.ClassNetwork
	}
	return ""
}

// isNetwork looks closer at net.Error, because the ends of contexts and the numbers of the operating system (a missing
// file, for one) implement it too.
func isNetwork(err error) bool {
	if As[*net.OpError]()(err) {
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	e, ok := errors.AsType[net.Error](err)
	_, number := e.(syscall.Errno)
	return ok && !number
}

func isTLS(err error) bool {
	switch {
	case As[*tls.CertificateVerificationError]()(err), As[tls.RecordHeaderError]()(err), As[tls.AlertError]()(err):
		return true
	}
	return As[x509.UnknownAuthorityError]()(err) || As[x509.HostnameError]()(err) || As[x509.CertificateInvalidError]()(err)
}
