package postgres

import (
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// Classes returns the family of classes sql_serialization, sql_deadlock and sql_connection within sql, for
// retry.ExecutorOptions.Classes. It knows the errors of pgx, of this package and of database/sql over pgx:
//
//   - sql_serialization: SQLSTATE 40001
//   - sql_deadlock: SQLSTATE 40P01
//   - sql_connection: the connection failed, the server ended it or accepts no more (SQLSTATE class 08, 57P01, 57P02, 57P03,
//     57P05, 25P03, 53300)
//   - sql: every other error that the server reported
//
// A connection that breaks while a statement runs is a network error of class eof or connection_reset.
func Classes() classify.Family {
	return classify.Family{
		Names: []policy.Class{policy.ClassSQL, policy.ClassSQLSerialization, policy.ClassSQLDeadlock, policy.ClassSQLConnection},
		Of:    classOf,
	}
}

// Classes is [Classes], for workers on this store.
func (j *Jobs) Classes() classify.Family { return Classes() }

func classOf(err error) policy.Class {
	if reported := code(err); reported != "" {
		switch reported {
		case "40001":
			return policy.ClassSQLSerialization
		case deadlock:
			return policy.ClassSQLDeadlock
		case "57P01", "57P02", "57P03", "57P05", "25P03", "53300":
			return policy.ClassSQLConnection
		}
		if reported[:min(2, len(reported))] == "08" {
			return policy.ClassSQLConnection
		}
		return policy.ClassSQL
	}
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	if unconnected || pgconn.SafeToRetry(err) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return policy.ClassSQLConnection
	}
	return ""
}
