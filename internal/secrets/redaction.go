package secrets

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/filter"
)

// Names lists the names whose values are always secret: of HTTP headers.
func Names() []string {
	return []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key"}
}

// Hidden replaces a secret.
const Hidden = "[redacted]"

// Redaction hides the members of JSON documents, at any depth, and the entries of maps that have the name of a secret,
// whatever its case, and the passwords in a document's URLs. The zero value hides those of [Names].
type Redaction struct {
	Show bool     // hides nothing
	More []string // further names
}

// Secret reports whether values of a name are hidden.
func (r *Redaction) Secret(name string) bool {
	for _, names := range [][]string{Names(), r.More} {
		for _, secret := range names {
			if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), strings.ReplaceAll(secret, "_", "-")) {
				return true
			}
		}
	}
	return false
}

// Hides reports whether a text is hidden at a path of names with dots between them: below the name of a secret, or as a URL with
// a password.
func (r *Redaction) Hides(path, text string) bool {
	if r.Show {
		return false
	}
	name := ""
	for name = range strings.SplitSeq(path, ".") {
		if r.Secret(name) {
			return true
		}
	}
	return strings.EqualFold(name, "url") && withoutPassword(text) != text
}

// Map returns a copy without secrets.
func (r *Redaction) Map(m map[string]string) map[string]string {
	if r.Show {
		return m
	}
	hidden := maps.Clone(m)
	for name := range hidden {
		if r.Secret(name) {
			hidden[name] = Hidden
		}
	}
	return hidden
}

// Terms returns the terms of a filter without secrets.
func (r *Redaction) Terms(terms filter.Terms) filter.Terms {
	terms = slices.Clone(terms)
	for i, t := range terms {
		if slices.ContainsFunc(t.Values, func(v filter.Value) bool { return r.Hides(t.Path, v.Text) }) {
			terms[i].Values = filter.Exactly(Hidden)
		}
	}
	return terms
}

// JSON returns a document without secrets: the same bytes if there is nothing to hide. Text that is not JSON is returned as
// it is.
func (r *Redaction) JSON(raw []byte) []byte {
	if r.Show || !json.Valid(raw) {
		return raw
	}
	w := redaction{Redaction: r, in: json.NewDecoder(bytes.NewReader(raw))}
	w.in.UseNumber()
	w.value("")
	if !w.found {
		return raw
	}
	return w.out.Bytes()
}

// redaction copies valid JSON.
type redaction struct {
	*Redaction
	in    *json.Decoder
	out   bytes.Buffer
	found bool
}

// value copies a value that is the member name of an object; elsewhere name is empty.
func (w *redaction) value(name string) {
	token := w.token()
	delimiter, ok := token.(json.Delim)
	if !ok {
		if text, isText := token.(string); isText && strings.EqualFold(name, "url") {
			if safe := withoutPassword(text); safe != text {
				token, w.found = safe, true
			}
		}
		w.scalar(token)
		return
	}
	object := delimiter == '{'
	w.out.WriteByte(byte(delimiter))
	for first := true; w.in.More(); first = false {
		if !first {
			w.out.WriteByte(',')
		}
		member := ""
		if object {
			key := w.token()
			member, _ = key.(string)
			w.scalar(key)
			w.out.WriteByte(':')
		}
		if object && w.Secret(member) {
			var skipped json.RawMessage
			_ = w.in.Decode(&skipped) // it was valid
			w.scalar(Hidden)
			w.found = true
			continue
		}
		w.value(member)
	}
	end, _ := w.token().(json.Delim)
	w.out.WriteByte(byte(end))
}

func (w *redaction) token() json.Token {
	token, _ := w.in.Token() // the text was valid
	return token
}

func (w *redaction) scalar(v any) {
	e := json.NewEncoder(&w.out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // tokens can always be encoded
	w.out.Truncate(w.out.Len() - 1)
}

// withoutPassword hides the password of a URL, or the whole URL if it cannot be parsed but seems to have a password.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil && strings.Contains(text, "@") {
		return Hidden
	}
	if err != nil || u.User == nil {
		return text
	}
	if _, has := u.User.Password(); !has {
		return text
	}
	return u.Redacted()
}
