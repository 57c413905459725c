// Package secrets hides secrets in payloads and metadata.
package secrets
