package netguard

import (
	"errors"
	"net/url"
	"strings"
)

// Cause returns the error inside an error of http.Client, without the URLs that net/http adds: they may hold secrets.
func Cause(err error) error {
	u, ok := errors.AsType[*url.Error](err)
	switch {
	case !ok:
		return err
	case strings.HasPrefix(u.Err.Error(), "failed to parse Location header"): // has no type
		return errors.New("the response's Location header is invalid")
	}
	return u.Err
}
