// Package netguard keeps requests whose addresses come from others (webhooks, callbacks) out of private networks: it looks at
// the address that is dialled, after names are resolved and for every redirect.
package netguard
