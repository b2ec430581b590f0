// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bytes"
	"io"
	"net/http"
	"slices"
)

// keepBody puts the body of the request into the journal, if bodies are kept.
func (x *exchange) keepBody() {
	if x.proxy.bodies == 0 {
		return
	}
	body := x.buffer()
	kept := slices.Clone(body[:min(len(body), x.proxy.bodies)])
	x.proxy.journal.note(func() { x.entry.Body = kept })
}

// keepProblem puts the body of an answer that is no success into the journal, if
// bodies are kept. The client gets all of it, and the error with which it ends.
func (x *exchange) keepProblem(response *http.Response) {
	if x.proxy.bodies == 0 || response.StatusCode < http.StatusBadRequest {
		return
	}
	kept, err := io.ReadAll(io.LimitReader(response.Body, int64(x.proxy.bodies)))
	rest := io.Reader(response.Body)
	if err != nil {
		rest = failing{err}
	}
	response.Body = readCloser{io.MultiReader(bytes.NewReader(kept), rest), response.Body}
	x.proxy.journal.note(func() { x.entry.Problem = kept })
}

// readCloser reads from one place and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// failing is a body that ends with an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
