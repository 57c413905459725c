package testhttp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strings"
)

// Message is a recorded request or answer.
type Message struct {
	Start  string // the request line, or the status line
	Header http.Header
	Body   []byte
}

// separator stands between the request and the answer of a recorded exchange.
const separator = "\n\n###\n\n"

// Format writes an exchange as text: start lines, headers by name, bodies.
func Format(request, answer Message) []byte {
	return []byte(request.format() + separator + answer.format() + "\n")
}

func (m Message) format() string {
	var b strings.Builder
	b.WriteString(m.Start + "\n")
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		for _, value := range m.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	b.WriteString("\n" + strings.TrimRight(string(m.Body), "\n"))
	return strings.TrimRight(b.String(), "\n")
}

// ReadExchange reads the output of Format from a file. Line breaks at the end of bodies are not kept.
func ReadExchange(path string) (request, answer Message, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return request, answer, err
	}
	first, second, found := bytes.Cut(data, []byte(separator))
	if !found {
		return request, answer, fmt.Errorf("testhttp: %s: no line ### between request and answer", path)
	}
	if request, err = readMessage(first); err != nil {
		return request, answer, err
	}
	answer, err = readMessage(second)
	return request, answer, err
}

func readMessage(data []byte) (m Message, err error) {
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(bytes.TrimRight(data, "\n"), "\n\n"...))))
	if m.Start, err = r.ReadLine(); err != nil {
		return m, err
	}
	header, err := r.ReadMIMEHeader()
	if err != nil {
		return m, err
	}
	m.Header = http.Header(header)
	m.Body, err = io.ReadAll(r.R)
	m.Body = bytes.TrimRight(m.Body, "\n")
	return m, err
}
