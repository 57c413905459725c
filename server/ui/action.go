package ui

import (
	"cmp"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tenetdev/tenet/internal/uuidv7"
)

// action is a change that a person previews and then makes.
type action struct {
	path string // under "do/", as a pattern of ServeMux
	// preview says what would happen.
	preview func(*request) (*preview, error)
	// make makes the change, and returns what happened in a sentence and the path to go to; an empty one is where the person
	// came from.
	make func(*request) (notice, next string, err error)
	// show makes the change and returns what to show, by the template of this name: for what is seen once. It stands instead of
	// make.
	show func(*request) (file string, data any, err error)
}

// on returns an action on the object that read finds for a request.
func on[T any](path string, read func(*request) (T, error), show func(*request, T) (*preview, error), change func(*request) (notice, next string, err error)) *action {
	return &action{path: path, make: change, preview: func(r *request) (*preview, error) {
		found, err := read(r)
		if err != nil {
			return nil, err
		}
		return show(r, found)
	}}
}

// wildcard reads the value of a wildcard in an action's path.
func wildcard(name string) func(*request) (string, error) {
	return func(r *request) (string, error) { return r.PathValue(name), nil }
}

// preview is what an action would do.
type preview struct {
	Title   string   // "Retry 12,000 jobs?"
	Text    []string // what happens, a paragraph each
	Fields  []field  // what the person fills in
	Counted bool     // Count says how many are changed
	Count   int
	Button  string // "Retry 12,000 jobs"
	Danger  bool   // it cannot be undone
	Command string // the same on the command line, without what the fields say
	Last    string // what the command line says behind the fields
	Nothing bool   // there is nothing to do: no button
	// Extra is shown below the text, by the template named in ExtraTemplate.
	ExtraTemplate string
	Extra         any
	// File is the template of a preview that is a page of its own, without .html; empty for the usual one.
	File string

	Key, Shown, Action, Return, Problem string // filled in by showPreview
}

// field is an input of a preview. Its value comes back under its name.
type field struct {
	Name, Label, Help, Value, Type string // Type is that of an input element; "textarea", "select", "checkbox", "checks" and "hidden" too
	Required                       bool
	Options                        []string // of a select, or suggested in a text
	Choices                        []choice // of a select whose options show something else, or of checks, which are several boxes of one name

	// Flag is what the command line says, in which VALUE stands for the value. If the value is empty or Usual, the command line says
	// Unset instead. Several is set for values with parts, which spaces or commas separate.
	Flag, Usual, Unset string
	Several            bool
}

// box reports whether a browser sends nothing for the field if it is left empty.
func (f *field) box() bool { return f.Type == "checkbox" || f.Type == "checks" }

// CommandLine is the same on the command line.
func (p *preview) CommandLine() string {
	line := []string{p.Command}
	for i := range p.Fields {
		if words := p.Fields[i].words(); words != "" {
			line = append(line, words)
		}
	}
	if p.Last != "" {
		line = append(line, p.Last)
	}
	return strings.Join(line, " ")
}

// words are what a field adds to the command line. A script says the same while a person types.
func (f *field) words() string {
	value := strings.TrimSpace(f.Value)
	var chosen []string
	for _, c := range f.Choices {
		if c.Chosen {
			chosen = append(chosen, c.Value)
		}
	}
	switch {
	case f.Type == "select" && len(f.Choices) > 0 && len(chosen) == 0: // the browser chooses the first
		value = f.Choices[0].Value
	case len(f.Choices) > 0:
		value = strings.Join(chosen, ",")
	case f.Type == "select" && value == "":
		value = f.Options[0]
	case f.Several:
		value = strings.Join(parts(value), ",")
	}
	if value == "" || value == f.Usual {
		return f.Unset
	}
	return strings.Replace(f.Flag, "VALUE", shellWord(value), 1)
}

// parts divides a list that a person has typed.
func parts(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || unicode.IsSpace(c) })
}

// choice is a box of checks.
type choice struct {
	Value, Text string
	Chosen      bool
}

// typedAbove is the count above which a person types it to confirm.
const typedAbove = 1000

// MustType says whether the count has to be typed.
func (p *preview) MustType() bool { return p.Counted && p.Count > typedAbove }

// Cancels says whether the action itself is a cancellation.
func (p *preview) Cancels() bool { return strings.HasPrefix(p.Button, "Cancel") }

// showPreview answers with the preview of an action, in a dialog where a script asks for it.
func (u *UI) showPreview(w http.ResponseWriter, q *request, a *action, fault string) {
	shown := time.Now().UTC().Format(time.RFC3339Nano)
	p, err := a.preview(q)
	if err != nil {
		u.fail(w, q, err)
		return
	}
	p.Key, p.Shown, p.Action, p.Return, p.Problem = uuidv7.Next(), shown, q.URL.RequestURI(), u.returnPath(q), fault
	for i, f := range p.Fields { // what was typed stays
		if q.Method != http.MethodPost || f.Type == "hidden" || !q.PostForm.Has(f.Name) && !f.box() {
			continue
		}
		p.Fields[i].Value = q.PostForm.Get(f.Name)
		for j, c := range f.Choices {
			f.Choices[j].Chosen = slices.Contains(q.PostForm[f.Name], c.Value)
		}
	}
	v := view{Title: p.Title, Nav: u.navigation(""), Who: q.who, Data: p}
	file := cmp.Or(p.File, "preview")
	if asksForContent(q) {
		u.renderContent(w, q, file, v)
	} else {
		u.render(w, q.Request, file, v)
	}
}

// maxForm bounds the forms of actions. A document to publish is the largest.
const maxForm = 4 << 20

// serveAction makes a change. The form, which may have megabytes, is not read before the caller is known.
func (u *UI) serveAction(w http.ResponseWriter, q *request, a *action) {
	r := q.Request
	if err := readForm(w, r, maxForm); err != nil {
		u.fail(w, q, err)
		return
	}
	if want := r.PostFormValue("count"); want != "" {
		typed := strings.NewReplacer(",", "", " ", "", ".", "").Replace(r.PostFormValue("typed"))
		if n, err := strconv.Atoi(want); err == nil && n > typedAbove && typed != want {
			u.showPreview(w, q, a, "Type the number "+want+" to confirm.")
			return
		}
	}
	if a.show != nil {
		u.serveShown(w, q, a)
		return
	}
	notice, next, err := a.make(q)
	if text := faultOf(err); text != "" || errors.Is(err, errReview) {
		u.showPreview(w, q, a, text)
		return
	}
	if err != nil {
		u.fail(w, q, err)
		return
	}
	next = cmp.Or(next, u.returnPath(q))
	setNotice(w, u.options.Prefix, notice)
	if r.Header.Get("Hx-Request") != "" {
		w.Header().Set("Hx-Redirect", next)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // returnPath keeps it under the prefix
}

// serveShown makes a change and answers with what it returns.
func (u *UI) serveShown(w http.ResponseWriter, q *request, a *action) {
	file, data, err := a.show(q)
	if text := faultOf(err); text != "" {
		u.showPreview(w, q, a, text)
		return
	}
	if err != nil {
		u.fail(w, q, err)
		return
	}
	v := view{Title: "Done", Nav: u.navigation(""), Who: q.who, Data: data}
	if t, ok := data.(titled); ok {
		v.Title = t.Title()
	}
	u.render(w, q.Request, file, v)
}

// returnPath is the page that an action came from, under the prefix.
func (u *UI) returnPath(r *request) string {
	p, err := url.Parse(r.query.Get("return"))
	if err != nil || p.Scheme != "" || p.Host != "" || strings.HasPrefix(p.Path, "//") { // two slashes begin a host
		return u.href("")
	}
	if clean := path.Clean(p.Path); clean != u.options.Prefix && !strings.HasPrefix(clean, u.options.Prefix+"/") { // as redirections and browsers clean it
		return u.href("")
	}
	return p.RequestURI() // in which a backslash, which browsers take for a slash, is escaped
}

const noticeCookie = "tenet_notice"

// setNotice keeps a sentence for the next page.
func setNotice(w http.ResponseWriter, prefix, text string) {
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Value: base64.RawURLEncoding.EncodeToString([]byte(text)), Path: prefix, MaxAge: 60, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// takeNotice returns the sentence of the last action, once.
func takeNotice(w http.ResponseWriter, r *http.Request, prefix string) string {
	c, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: noticeCookie, Path: prefix, MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	text, _ := base64.RawURLEncoding.DecodeString(c.Value)
	return string(text)
}

// fragment is a part of a page that a script asks for.
type fragment struct {
	path string
	file string // template, which defines "content"
	load func(*request) (any, error)
}

func (u *UI) serveFragment(w http.ResponseWriter, q *request, f *fragment) {
	data, err := f.load(q)
	if err != nil {
		u.fail(w, q, err)
		return
	}
	u.renderContent(w, q, f.file, view{Who: q.who, Data: data})
}
