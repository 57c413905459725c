package ui

import (
	"context"
	"net/http"

	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// signIn is what the page to sign in shows.
type signIn struct {
	Return  string
	Methods []string // token, oidc
	Problem string
}

func (u *UI) sessionRoutes() {
	prefix := u.options.Prefix
	u.mux.HandleFunc("GET "+prefix+"/login", func(w http.ResponseWriter, r *http.Request) {
		q := u.request(r)
		u.showLogin(w, q, http.StatusOK, "")
	})
	u.mux.HandleFunc("POST "+prefix+"/login", u.login)
	u.mux.HandleFunc("POST "+prefix+"/logout", u.logout)
}

func (u *UI) showLogin(w http.ResponseWriter, q *request, status int, problem string) {
	s := signIn{Return: u.returnPath(q), Problem: problem}
	var found api.SignInMethods
	if err := q.get("/v1/session/methods", nil, &found); err != nil {
		u.fail(w, q, err)
		return
	}
	s.Methods = found.Methods
	u.render(w, q.Request, "login", view{Title: "Sign in", Data: s, Status: status})
}

// login exchanges a token for a session cookie, which the API sets.
func (u *UI) login(w http.ResponseWriter, r *http.Request) {
	q := u.request(r)
	if err := readForm(w, r, 64<<10); answered(err, http.StatusRequestTimeout) { // any other form has no valid token
		u.fail(w, q, err)
		return
	}
	err := u.pass(w, q, client.Call{Method: http.MethodPost, Path: sessionPath, Body: api.SignIn{Token: r.PostFormValue("token")}})
	if answered(err, http.StatusUnauthorized, http.StatusUnprocessableEntity) {
		u.showLogin(w, q, http.StatusUnauthorized, "The server does not accept this token. It may have expired or been revoked, or a part of it is missing.")
		return
	}
	if err != nil {
		u.fail(w, q, err)
		return
	}
	http.Redirect(w, r, u.returnPath(q), http.StatusSeeOther) //nolint:gosec // returnPath keeps it under the prefix
}

func (u *UI) logout(w http.ResponseWriter, r *http.Request) {
	q := u.request(r)
	if err := u.pass(w, q, client.Call{Method: http.MethodDelete, Path: sessionPath}); err != nil {
		u.fail(w, q, err)
		return
	}
	http.Redirect(w, r, u.href("login"), http.StatusSeeOther)
}

// pass makes a call of the API and hands the cookies of its answer to the browser.
func (u *UI) pass(w http.ResponseWriter, q *request, call client.Call) error {
	var cookies []string
	err := u.client.Do(context.WithValue(q.context(), cookiesKey{}, &cookies), call, nil)
	for _, c := range cookies {
		w.Header().Add("Set-Cookie", c)
	}
	return err
}
