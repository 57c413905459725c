package jobs

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/job"
)

// secretNames are the names whose values are redacted.
var secretNames = []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key"}

// hiddenValue replaces a secret.
const hiddenValue = "[redacted]"

// Secrets redacts the secrets of jobs: passwords in a payload's URLs, and the values of secret names, in any case, in payloads
// at any depth and in metadata. The zero value redacts those of secretNames.
type Secrets struct {
	show bool
	more []string // further names
}

// SecretFlags adds --show-secrets and --redact to a command that prints jobs.
func SecretFlags(cmd *cobra.Command) *Secrets {
	s := &Secrets{}
	cmd.Flags().BoolVar(&s.show, "show-secrets", false, "print the values of "+strings.Join(secretNames, ", ")+" in payloads and metadata")
	cmd.Flags().StringSliceVar(&s.more, "redact", nil, "additional names in payloads and metadata whose values are redacted; may be repeated")
	return s
}

func (s *Secrets) secret(name string) bool {
	for _, names := range [][]string{secretNames, s.more} {
		for _, secret := range names {
			if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), strings.ReplaceAll(secret, "_", "-")) {
				return true
			}
		}
	}
	return false
}

// hide returns a copy of a job without its secrets.
func (s *Secrets) hide(r *job.Record) *job.Record {
	if s.show {
		return r
	}
	hidden := *r
	hidden.Payload, hidden.Meta = s.Payload(r.Payload), maps.Clone(r.Meta)
	for name := range hidden.Meta {
		if s.secret(name) {
			hidden.Meta[name] = hiddenValue
		}
	}
	return &hidden
}

// Payload returns a payload without its secrets: the same bytes if it has none or is not JSON.
func (s *Secrets) Payload(raw []byte) []byte {
	if s.show || !json.Valid(raw) {
		return raw
	}
	w := redaction{Secrets: s, in: json.NewDecoder(bytes.NewReader(raw))}
	w.in.UseNumber()
	w.value("")
	if !w.found {
		return raw
	}
	return w.out.Bytes()
}

// redaction copies valid JSON.
type redaction struct {
	*Secrets
	in    *json.Decoder
	out   bytes.Buffer
	found bool
}

// value copies a value. name is its name in an object, or empty.
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
		if object && w.secret(member) {
			var skipped json.RawMessage
			_ = w.in.Decode(&skipped) // it was valid
			w.scalar(hiddenValue)
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

// withoutPassword hides the password of a URL.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	if _, has := u.User.Password(); !has {
		return text
	}
	return u.Redacted()
}
