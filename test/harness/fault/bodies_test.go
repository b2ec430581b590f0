// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestJournal_KeepsBodiesOnRequest(t *testing.T) {
	long := strings.Repeat("x", 40)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(append(body, '!'))
	}))
	t.Cleanup(upstream.Close)
	for name, tc := range map[string]struct {
		bodies                  int
		path, sent              string
		wantBody, wantIfRefused string
	}{
		"Kept":              {16, "/good", "short", "short", ""},
		"Refused":           {16, "/bad", "short", "short", "short!"},
		"Long":              {16, "/bad", long, long[:16], long[:16]},
		"NothingIsSent":     {16, "/bad", "", "", "!"},
		"NobodyAskedForAny": {0, "/bad", "short", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := startProxy(t, Options{Upstream: upstream.URL, Bodies: tc.bodies})
			g.Expect(ask(t.Context(), p, http.MethodPut, tc.path, tc.sent).Body).To(Equal(tc.sent+"!"),
				"the client gets all of it")
			kept := p.Journal().Requests[0]
			g.Expect(string(kept.Body)).To(Equal(tc.wantBody))
			g.Expect(string(kept.Problem)).To(Equal(tc.wantIfRefused))
		})
	}
}

func TestJournal_KeptAnswerStillBreaksOff(t *testing.T) {
	g := NewWithT(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "half")
	}))
	t.Cleanup(upstream.Close)
	p := startProxy(t, Options{Upstream: upstream.URL, Bodies: 1000})
	got := ask(t.Context(), p, http.MethodGet, "/", "")
	g.Expect(got.Err).To(MatchError(io.ErrUnexpectedEOF))
	g.Expect(string(p.Journal().Requests[0].Problem)).To(Equal("half"))
}

func TestJournal_RecordsPeers(t *testing.T) {
	g := NewWithT(t)
	var asked []string
	p := startProxy(t, Options{Upstream: startService(t).URL, Peer: func(address, _ string) string {
		asked = append(asked, address)
		if len(asked) == 1 {
			return "one"
		}
		return ""
	}})
	for range 2 {
		g.Expect(ask(t.Context(), p, http.MethodGet, "/", "").Status).To(Equal(http.StatusOK))
	}
	journal := p.Journal()
	g.Expect(asked).To(Equal([]string{journal.Connections[0].Remote, journal.Connections[1].Remote}))
	g.Expect(journal.Requests[0].Peer).To(Equal("one"))
	g.Expect(journal.Requests[1].Peer).To(BeEmpty(), "the peer is unknown")
}
