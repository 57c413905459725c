package ui

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

//go:embed templates/*.html
var templateFiles embed.FS

// readTemplates returns a set of templates for each page, by the name of its file, which is parsed when it is first used: the layout, the
// components, the parts that several pages share, and the page's own file.
func (u *UI) readTemplates() (map[string]func() (*template.Template, error), error) {
	base, err := template.New("").Funcs(u.functions()).ParseFS(templateFiles, "templates/layout.html", "templates/components.html", "templates/parts-*.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	sets := map[string]func() (*template.Template, error){}
	for _, name := range names {
		sets[strings.TrimSuffix(path.Base(name), ".html")] = sync.OnceValues(func() (*template.Template, error) {
			set, err := base.Clone()
			if err != nil {
				return nil, err
			}
			return set.ParseFS(templateFiles, name)
		})
	}
	return sets, nil
}

// execute renders a template of a page.
func (u *UI) execute(file, name string, v view) ([]byte, error) {
	var b bytes.Buffer
	set, err := u.templates[file]()
	if err == nil {
		err = set.ExecuteTemplate(&b, name, v)
	}
	return b.Bytes(), err
}

// functions are what templates may call.
func (u *UI) functions() template.FuncMap {
	return template.FuncMap{
		"href":     u.href,
		"store":    u.storeName,
		"asset":    u.assetPath,
		"number":   number,
		"seconds":  seconds,
		"duration": func(d time.Duration) string { return seconds(d.Seconds()) },
		"waiting":  func(s audit.Seconds) string { return seconds(time.Duration(s).Seconds()) },
		"brief":    brief,
		"bytes":    byteSize,
		"percent":  percent,
		"instant":  instant,
		"dict":     dict,
		"list":     func(items ...any) []any { return items },
		"plural":   plural,
		"tree":     tree,
		"jsonText": func(v any) (string, error) { raw, err := json.Marshal(v); return string(raw), err },
		"can":      func(v view, scope string) bool { return can(v, policystore.Scope(scope)) },
		"join":     strings.Join,
		"escape":   url.PathEscape,
		"term":     term,
		"facts":    factsText,
		"bounds":   boundsText,
		"current":  nowText,
		"event":    func(s api.StoryStep) string { return eventText(&s) },
		"first":    func(s string, n int) string { return s[:min(n, len(s))] },
		"addf":     func(a float64, b float64) string { return strconv.FormatFloat(a+b, 'f', 1, 64) },
		"add":      func(a, b int) int { return a + b },
		"command":  func(parts ...string) string { return commandLine(parts) },
		"explain":  func(work string) string { return commandOn(work, "audit", "explain") },
	}
}

// storeName is how commands name the store.
func (u *UI) storeName() string { return cmp.Or(u.options.Store, "URL") }

func (u *UI) assetPath(name string) (string, error) {
	f := u.assets.files[name]
	if f == nil {
		return "", fmt.Errorf("there is no asset %q", name)
	}
	return f.path, nil
}

// can reports whether the caller may use operations of a scope.
func can(v view, scope policystore.Scope) bool {
	return (scope == policystore.ScopeRead || !v.Who.ReadOnly) && (&policystore.Token{Scopes: v.Who.Scopes}).Has(scope)
}

// dict makes a map from names and values, for templates with several arguments.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is not a name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// number writes an integer with separators of thousands.
func number(v any) string {
	n, ok := toFloat(v)
	if !ok {
		return fmt.Sprint(v)
	}
	text := strconv.FormatFloat(math.Abs(math.Round(n)), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if n <= -0.5 {
		text = "−" + text
	}
	return text
}

func toFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// seconds writes a time span to two or three digits: 0.4 ms, 35 ms, 1.2 s, 3 min 20 s, 2 h 5 min, 3 d 4 h.
func seconds(s float64) string {
	abs := math.Abs(s)
	whole := int64(math.Round(abs))
	switch {
	case abs == 0:
		return "0 s"
	case abs < 0.01:
		return trim(s*1e3, 2) + " ms"
	case abs < 0.9995:
		return trim(s*1e3, 0) + " ms"
	case abs < 10:
		return trim(s, 1) + " s"
	case whole < 60:
		return trim(s, 0) + " s"
	case whole < 3600:
		return two(whole/60, "min", whole%60, "s")
	case whole < 86400:
		return two(whole/3600, "h", whole%3600/60, "min")
	}
	return two(whole/86400, "d", whole%86400/3600, "h")
}

func two(a int64, unit string, b int64, smaller string) string {
	if b == 0 {
		return fmt.Sprintf("%d %s", a, unit)
	}
	return fmt.Sprintf("%d %s %d %s", a, unit, b, smaller)
}

// trim writes a number with at most so many decimals.
func trim(f float64, decimals int) string {
	text := strconv.FormatFloat(f, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func byteSize(v any) string {
	n, _ := toFloat(v)
	switch {
	case n < 1024:
		return trim(n, 0) + " B"
	case n < 1<<20:
		return trim(n/1024, 1) + " KiB"
	}
	return trim(n/(1<<20), 1) + " MiB"
}

// percent writes a share from 0 to 1. Only 1 itself is 100 %.
func percent(share float64) string {
	switch {
	case share > 0.99 && share < 1:
		return trim(min(share*100, 99.9), 1) + " %"
	case share == 0 || share >= 0.1:
		return trim(share*100, 0) + " %"
	case share < 0.001:
		return trim(share*100, 3) + " %"
	}
	return trim(share*100, 1) + " %"
}

// clock writes a time of day.
func clock(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }

// instant writes a time as an element that holds the exact value. Scripts add how long ago it was.
func instant(t time.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">never</span>`
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339Nano) + `" title="` + t.Format("2006-01-02 15:04:05.000000") + ` UTC">` + //nolint:gosec // digits only
		t.Format("2006-01-02 15:04:05") + ` UTC</time>`)
}

var longHash = regexp.MustCompile(`\b[0-9a-f]{40,128}\b`)

// brief cuts long hashes in a text to 12 digits.
func brief(text string) string {
	return longHash.ReplaceAllStringFunc(text, func(hash string) string { return hash[:12] + "…" })
}

// plural chooses between one and many: plural 2 "job" "jobs" is "2 jobs".
func plural(n any, one, many string) string {
	if f, _ := toFloat(n); f == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// joined lists the texts that are not empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), ", ")
}

// commandLine writes a command for a shell.
func commandLine(parts []string) string { return "tenet " + shellWords(parts) }

// operands are arguments of a command that go behind its flags, also those that look like flags.
func operands(names ...string) []string {
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "-") }) {
		return append([]string{"--"}, names...)
	}
	return names
}

// commandOn is a command line with a name behind its flags.
func commandOn(name string, words ...string) string {
	return commandLine(append(words, operands(name)...))
}

// shellWords joins words that are not empty.
func shellWords(words []string) string {
	var out []string
	for _, w := range words {
		if w != "" {
			out = append(out, shellWord(w))
		}
	}
	return strings.Join(out, " ")
}

// shellWord quotes a word for a shell where it has to be. Control characters, which terminals act on as they are pasted, become escapes.
func shellWord(word string) string {
	word = strings.ReplaceAll(word, "\x00", "\uFFFD") // a shell would end the word there, and the command would name something else
	if strings.ContainsFunc(word, controls) {
		var b strings.Builder
		for _, r := range word {
			switch {
			case controls(r):
				for _, c := range []byte(string(r)) {
					fmt.Fprintf(&b, `\%03o`, c)
				}
			case r == '\'' || r == '\\':
				b.WriteString(`\` + string(r))
			default:
				b.WriteRune(r)
			}
		}
		return "$'" + b.String() + "'"
	}
	if strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=/:.,@%+", r)
	}) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// controls reports whether a character is a control character that nobody types into a form.
func controls(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// node is a value of a JSON document, to be shown as a tree.
type node struct {
	Name     string
	Kind     string // object, array, string, number, bool, null, cut
	Text     string // of a scalar
	Size     int    // of an object or array
	Children []node
}

// Bounds of a tree.
const (
	treeDepth = 24
	treeNodes = 2000
)

// tree reads a JSON document. Text that is not JSON becomes a single string, and an encoded payload becomes what is known of it.
func tree(raw json.RawMessage) node {
	if seal, ok := job.ReadSeal(raw); ok {
		return node{Kind: "string", Text: seal.String()}
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw)) // which reads the first of several values
	d.UseNumber()
	if err := d.Decode(&v); err != nil || !json.Valid(raw) {
		return node{Kind: "string", Text: string(raw)}
	}
	left := treeNodes
	return newNode("", v, treeDepth, &left)
}

func newNode(name string, v any, depth int, left *int) node {
	*left--
	if depth == 0 || *left < 0 {
		return node{Name: name, Kind: "cut"}
	}
	switch v := v.(type) {
	case map[string]any:
		n := node{Name: name, Kind: "object", Size: len(v)}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if *left < 0 {
				n.Children = append(n.Children, node{Kind: "cut"})
				break
			}
			n.Children = append(n.Children, newNode(name, v[name], depth-1, left))
		}
		return n
	case []any:
		n := node{Name: name, Kind: "array", Size: len(v)}
		for i, item := range v {
			if *left < 0 {
				n.Children = append(n.Children, node{Kind: "cut"})
				break
			}
			n.Children = append(n.Children, newNode(strconv.Itoa(i), item, depth-1, left))
		}
		return n
	case string:
		return node{Name: name, Kind: "string", Text: strconv.Quote(v)}
	case json.Number:
		return node{Name: name, Kind: "number", Text: v.String()}
	case bool:
		return node{Name: name, Kind: "bool", Text: strconv.FormatBool(v)}
	}
	return node{Name: name, Kind: "null", Text: "null"}
}
