package sharing

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestANameThatStoresRefuseIsReplaced(t *testing.T) {
	h := &Hub{}
	seen := map[string]bool{}
	for _, name := range []string{"budget/api", strings.Repeat("x", MaxName+1), strings.Repeat("y", MaxName+1), "a\x00b", "a\xffb"} {
		link := h.Link(name)
		if err := (State{Name: link.name}).Check(); err != nil || seen[link.name] || !utf8.ValidString(link.name) || strings.Contains(link.name, "\x00") {
			t.Errorf("%.20q became %q: %v", name, link.name, err)
		}
		seen[link.name] = true
	}
	if !seen["budget/api"] {
		t.Error("a good name was replaced")
	}
}

func TestO3ANilStoreIsNamedAtOnce(t *testing.T) {
	defer func() {
		if got := recover(); got != "sharing: NewHub: the store is nil" {
			t.Errorf("panic %v", got)
		}
	}()
	NewHub(nil)
}
