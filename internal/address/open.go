package address

import "strings"

// Hosts lists the hosts in a comma-separated list of server URLs, without users and passwords.
func Hosts(servers string) string {
	var hosts []string
	for server := range strings.SplitSeq(servers, ",") {
		if _, rest, ok := strings.Cut(server, "://"); ok {
			server = rest
		}
		server = server[strings.LastIndexByte(server, '@')+1:] // passwords may hold what else ends a host
		if end := strings.IndexAny(server, "/?#"); end >= 0 {
			server = server[:end]
		}
		hosts = append(hosts, strings.TrimSpace(server))
	}
	return strings.Join(hosts, ", ")
}

// OpenError says that servers of a kind, such as nats, cannot be opened, and names their hosts. It says the kind once where the
// driver's error begins with it too.
func OpenError(kind, servers string, err error) error {
	return &openError{kind + ": open " + Hosts(servers) + ": " + strings.TrimPrefix(err.Error(), kind+": "), err}
}

type openError struct {
	text string
	err  error
}

func (e *openError) Error() string { return e.text }
func (e *openError) Unwrap() error { return e.err }
