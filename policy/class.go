package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Class names a kind of error, such as connection_refused or http_503. Policies list classes in retry_on and abort_on;
// matchers, registered where the error types are known, say which errors belong to one.
type Class string

// Classes that package classify matches by itself.
const (
	ClassTimeout           Class = "timeout"
	ClassCanceled          Class = "canceled"
	ClassNetwork           Class = "network"
	ClassDNS               Class = "dns"
	ClassConnectionRefused Class = "connection_refused"
	ClassConnectionReset   Class = "connection_reset"
	ClassEOF               Class = "eof"
	ClassTLS               Class = "tls"
)

// Classes that integrations and stores match.
const (
	ClassHTTP4xx          Class = "http_4xx"
	ClassHTTP5xx          Class = "http_5xx"
	ClassSQL              Class = "sql"
	ClassSQLSerialization Class = "sql_serialization"
	ClassSQLDeadlock      Class = "sql_deadlock"
	ClassSQLConnection    Class = "sql_connection"
	ClassNATS             Class = "nats"
	ClassNATSNoResponders Class = "nats_no_responders"
	ClassNATSTimeout      Class = "nats_timeout"
	ClassNATSConnection   Class = "nats_connection"
	ClassRedis            Class = "redis"
	ClassRedisUnavailable Class = "redis_unavailable"
	ClassRedisConnection  Class = "redis_connection"
	ClassGRPC             Class = "grpc"
	ClassExit             Class = "exit"
)

var classParents = map[Class]Class{
	ClassTimeout: "", ClassCanceled: "", ClassNetwork: "", ClassTLS: ClassNetwork,
	ClassDNS: ClassNetwork, ClassConnectionRefused: ClassNetwork, ClassConnectionReset: ClassNetwork, ClassEOF: ClassNetwork,
	ClassHTTP4xx: "", ClassHTTP5xx: "",
	ClassSQL: "", ClassSQLSerialization: ClassSQL, ClassSQLDeadlock: ClassSQL, ClassSQLConnection: ClassSQL,
	ClassNATS: "", ClassNATSNoResponders: ClassNATS, ClassNATSTimeout: ClassNATS, ClassNATSConnection: ClassNATS,
	ClassRedis: "", ClassRedisUnavailable: ClassRedis, ClassRedisConnection: ClassRedis,
	ClassGRPC: "", ClassExit: "",
	"grpc_canceled": ClassGRPC, "grpc_unknown": ClassGRPC, "grpc_invalid_argument": ClassGRPC, "grpc_deadline_exceeded": ClassGRPC,
	"grpc_not_found": ClassGRPC, "grpc_already_exists": ClassGRPC, "grpc_permission_denied": ClassGRPC,
	"grpc_resource_exhausted": ClassGRPC, "grpc_failed_precondition": ClassGRPC, "grpc_aborted": ClassGRPC,
	"grpc_out_of_range": ClassGRPC, "grpc_unimplemented": ClassGRPC, "grpc_internal": ClassGRPC, "grpc_unavailable": ClassGRPC,
	"grpc_data_loss": ClassGRPC, "grpc_unauthenticated": ClassGRPC,
}

// HTTPClass returns the class of a status code, for example http_503, or "" for codes outside 400 to 599.
func HTTPClass(status int) Class {
	if status < 400 || status > 599 {
		return ""
	}
	return Class("http_" + strconv.Itoa(status))
}

// Known reports whether Tenet itself knows the class. Users' own classes are declared in documents.
func (c Class) Known() bool {
	if _, ok := classParents[c]; ok {
		return true
	}
	status, ok := strings.CutPrefix(string(c), "http_")
	code, err := strconv.Atoi(status)
	return ok && err == nil && HTTPClass(code) == c
}

// Parent returns the wider class that c belongs to (http_503 is an http_5xx), or "".
func (c Class) Parent() Class {
	if parent, ok := classParents[c]; ok {
		return parent
	}
	switch {
	case !c.Known():
		return ""
	case strings.HasPrefix(string(c), "http_4"):
		return ClassHTTP4xx
	}
	return ClassHTTP5xx
}

// Within reports whether c is the class wide or part of it.
func (c Class) Within(wide Class) bool {
	for ; c != ""; c = c.Parent() {
		if c == wide {
			return true
		}
	}
	return false
}

// Classes lists the known classes in alphabetical order, with only the common ones of the single HTTP statuses.
func Classes() []Class {
	list := slices.Collect(maps.Keys(classParents))
	for _, status := range []int{408, 409, 425, 429, 500, 502, 503, 504} {
		list = append(list, HTTPClass(status))
	}
	slices.Sort(list)
	return list
}
