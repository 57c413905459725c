package address

import (
	"fmt"
	"net/url"
	"strings"
)

// Kind is a kind of server, such as nats. It begins the errors of an adapter.
type Kind string

// OpenError says that servers could not be opened, and names their hosts.
func (k Kind) OpenError(servers string, err error) error { return k.Wrap("open "+Hosts(servers), err) }

// Readable returns an error if a URL in a comma-separated list of servers cannot be parsed. A driver's own error would show its
// password.
func (k Kind) Readable(servers string) error {
	for server := range strings.SplitSeq(servers, ",") {
		if server = strings.TrimSpace(server); !strings.Contains(server, "://") {
			server = string(k) + "://" + server
		}
		if _, err := url.Parse(server); err != nil {
			return fmt.Errorf("%s: the server's URL cannot be read; write %[1]s://user:password@host:port, with %%2F and the like in passwords", k)
		}
	}
	return nil
}

// Wrap says in which step err occurred, as in "nats: open host:4222: no servers available". It returns nil for nil.
func (k Kind) Wrap(step string, err error) error {
	if err == nil {
		return nil
	}
	return &wrapped{k, step, err}
}

type wrapped struct {
	kind Kind
	step string
	err  error
}

func (e *wrapped) Error() string { return string(e.kind) + ": " + e.step + ": " + e.kind.Text(e.err) }
func (e *wrapped) Unwrap() error { return e.err }

// Text returns a driver's error text as one line, without the kind, with which drivers begin their errors too, and without
// repeated lines: a driver lists what it has tried, and may have tried an address twice.
func (k Kind) Text(err error) string {
	var text string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimPrefix(strings.TrimSpace(line), string(k)+": ")
		line = strings.ReplaceAll(line, ": "+string(k)+": ", ": ")
		switch {
		case strings.HasSuffix(text, line):
		case text == "":
			text = line
		case strings.HasSuffix(text, ":"):
			text += " " + line
		default:
			text += "; " + line
		}
	}
	return text
}
