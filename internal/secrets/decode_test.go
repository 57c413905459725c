package secrets_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/internal/secrets"
)

func TestL12ADecodingErrorDoesNotQuoteTheValue(t *testing.T) {
	const secret = "4111111111111111"
	for _, c := range []struct {
		into       any
		text, want string
	}{
		{&struct{ Card int32 }{}, `{"Card":4111111111111111}`, "Card: a JSON number is not int32"},
		{&struct{ Card map[int8]bool }{}, `{"Card":{"4111111111111111":true}}`, "Card: a JSON number is not int8"},
		{new(int32), secret, "a JSON number is not int32"},
		{new(time.Time), `"4111111111111111"`, "a JSON string is not a time in RFC 3339"},
		{&struct{ Card json.Number }{}, `{"Card":"4111111111111111x"}`, "json: invalid number literal"},
		{new([]int), "{", "unexpected end of JSON input"},
	} {
		err := json.Unmarshal([]byte(c.text), c.into)
		hidden := secrets.DecodeError(err)
		if got := hidden.Error(); got != c.want || strings.Contains(got, secret) || !errors.Is(hidden, err) {
			t.Errorf("%s into %T: %q, want %q; from %v", c.text, c.into, got, c.want, err)
		}
	}
}
