// Package policysql is the policy store of all SQL engines. None of its statements is hot, so that they are written once, in
// what SQLite and PostgreSQL have in common: parameters are ?1, ?2 …, tables {{document}}, {{revision}} …, times are
// microseconds since 1970 in integers, and everything that no statement looks into is JSON in text.
package policysql
