package s3

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// FuzzAnswers lets a server send any response. The verdict must be one of the known messages.
func FuzzAnswers(f *testing.F) {
	f.Add(200, 200, "", "<ListBucketResult/>")
	f.Add(403, 403, "us-east-1", "<Error><Code>AccessDenied</Code></Error>")
	f.Add(301, 400, "", "<Error><Code>PermanentRedirect</Code><Region>x</Region></Error>")
	f.Add(400, 503, "\x00", "<Error><Code></Code>")
	f.Fuzz(func(t *testing.T, head, get int, region, body string) {
		valid := func(status int) bool { return status >= 200 && status < 1000 }
		if !valid(head) || !valid(get) || len(body) > 1<<20 {
			return
		}
		c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Amz-Bucket-Region", region)
			if r.Method == http.MethodHead {
				w.WriteHeader(head)
				return
			}
			w.WriteHeader(get)
			_, _ = io.WriteString(w, body) // 204 and 304 allow no body
		})
		known := func(v Verdict) bool {
			return v.Reason != "" && v.Message != "" && (len(body) < 8 || !strings.Contains(v.Message, body))
		}
		listed := strings.Contains(body, "ListBucketResult")
		if got := c.Probe(t.Context()); !known(got) || got.OK() && head != 200 && !listed {
			t.Errorf("HEAD %d, GET %d: %+v", head, get, got)
		}
		if _, _, err := c.Tag(t.Context(), "owner"); err != nil && !known(*VerdictOf(err)) {
			t.Errorf("GET %d: %v", get, err)
		}
		if err := c.Create(t.Context(), "owner", "uid"); (err == nil && get >= 300) ||
			(err != nil && !known(*VerdictOf(err))) {
			t.Errorf("PUT %d: %v", get, err)
		}
	})
}
