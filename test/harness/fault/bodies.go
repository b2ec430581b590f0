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

// keepProblem puts the body of an answer that is no success into the journal, if bodies are kept. The client gets all
// of it, and the error with which it ends: a body returns its error again.
func (x *exchange) keepProblem(response *http.Response) {
	if x.proxy.bodies == 0 || response.StatusCode < http.StatusBadRequest {
		return
	}
	kept, _ := io.ReadAll(io.LimitReader(response.Body, int64(x.proxy.bodies)))
	response.Body = readCloser{io.MultiReader(bytes.NewReader(kept), response.Body), response.Body}
	x.proxy.journal.note(func() { x.entry.Problem = kept })
}

// readCloser reads from one place and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}
