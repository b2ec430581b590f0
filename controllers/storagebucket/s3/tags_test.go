package s3

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// ReplaceTag keeps all other tags. It does not replace a value that has changed since the read.
func TestReplaceTag(t *testing.T) {
	for name, tc := range map[string]struct {
		from string
		code string
		puts int
	}{
		"the tag that is there": {from: "old", puts: 1},
		"a tag that has gone":   {from: "older", code: CodeChanged},
	} {
		t.Run(name, func(t *testing.T) {
			var stored string
			puts := 0
			c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					content, _ := io.ReadAll(r.Body)
					stored, puts = string(content), puts+1
					return
				}
				_, _ = io.WriteString(w,
					"<Tagging><TagSet><Tag><Key>owner</Key><Value>old</Value></Tag><Tag><Key>team</Key><Value>a</Value></Tag></TagSet></Tagging>")
			})
			if err := c.ReplaceTag(t.Context(), "owner", tc.from, "new"); Code(err) != tc.code || puts != tc.puts {
				t.Fatalf("error %v after %d changes, want code %q and %d", err, puts, tc.code, tc.puts)
			}
			if puts > 0 && (!strings.Contains(stored, "<Key>owner</Key><Value>new</Value>") ||
				!strings.Contains(stored, "<Key>team</Key><Value>a</Value>")) {
				t.Errorf("stored %s", stored)
			}
		})
	}
}
