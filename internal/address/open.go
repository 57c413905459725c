package address

import "strings"

// Hosts lists the hosts in a comma-separated list of server URLs, without users and passwords.
func Hosts(servers string) string {
	var hosts []string
	for server := range strings.SplitSeq(servers, ",") {
		if _, rest, ok := strings.Cut(server, "://"); ok {
			server = rest
		}
		server = server[strings.LastIndexByte(server, '@')+1:] // a password may contain the characters that end a host
		if end := strings.IndexAny(server, "/?#"); end >= 0 {
			server = server[:end]
		}
		hosts = append(hosts, strings.TrimSpace(server))
	}
	return strings.Join(hosts, ", ")
}
