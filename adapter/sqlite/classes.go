package sqlite

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// Classes returns the family of classes sql_serialization, sql_deadlock and sql_connection within sql, for
// retry.ExecutorOptions.Classes. It knows the errors of this package and of database/sql over modernc.org/sqlite:
//
//   - sql_serialization: SQLITE_BUSY: another transaction has locked the file or changed data that this one read; also where
//     waiting would be a deadlock between processes
//   - sql_deadlock: SQLITE_LOCKED: the lock belongs to a statement of the same connection, so that waiting cannot help
//   - sql_connection: SQLITE_CANTOPEN and SQLITE_IOERR
//   - sql: every other error that SQLite reported
func Classes() classify.Family {
	return classify.Family{
		Names: []policy.Class{policy.ClassSQL, policy.ClassSQLSerialization, policy.ClassSQLDeadlock, policy.ClassSQLConnection},
		Of:    classOf,
	}
}

// Classes is [Classes], for workers on this store.
func (s *Jobs) Classes() classify.Family { return Classes() }

func classOf(err error) policy.Class {
	switch code(err) {
	case 0:
		if errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
			return policy.ClassSQLConnection
		}
		return ""
	case codeBusy:
		return policy.ClassSQLSerialization
	case codeLocked:
		return policy.ClassSQLDeadlock
	case codeCantOpen, codeIOErr:
		return policy.ClassSQLConnection
	}
	return policy.ClassSQL
}
