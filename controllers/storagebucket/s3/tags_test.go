package s3

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/api/v1beta1"
)

// Tags of others, in any script and with any punctuation, do not hide the tag of the operator.
func TestTag_among_tags_of_others(t *testing.T) {
	longest := []bucketTag{}
	for i := range 49 {
		longest = append(longest, bucketTag{fmt.Sprintf("%02d", i) + strings.Repeat("é", 126), strings.Repeat("&", 256)})
	}
	for name, others := range map[string][]bucketTag{
		"none":                        nil,
		"letters beyond ASCII":        {{"Büro", "Köln"}, {"部門", "経理 🪣"}},
		"characters that XML escapes": {{"a<b>&\"'", "c&amp;\t\n"}},
		"characters that S3 refuses":  {{"a*?#%", "(b)[c]{d}|~^`;!$,\\"}},
		"no value":                    {{"empty", ""}},
		"the most and the longest":    longest,
		"more than S3 permits":        make([]bucketTag, 80),
	} {
		for _, value := range []string{"", "uid"} {
			t.Run(name+" "+value, func(t *testing.T) {
				stored := taggingBody{TagSet: tagSet{others}}
				if value != "" {
					stored.TagSet.Tags = append(stored.TagSet.Tags, bucketTag{"owner", value})
				}
				c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) {
					content, _ := xml.Marshal(stored)
					_, _ = w.Write(content)
				})
				got, tagged, err := c.Tag(t.Context(), "owner")
				if got != value || tagged != (len(stored.TagSet.Tags) > 0) || err != nil {
					t.Errorf("the tag is %q, tagged %t, %v", got, tagged, err)
				}
			})
		}
	}
}

// The XML of S3 and of MinIO is read, and written as S3 documents it.
func TestTagsOnTheWire(t *testing.T) {
	var put string
	c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			content, _ := io.ReadAll(r.Body)
			put = string(content)
			return
		}
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>
<Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><TagSet>
  <Tag><Key>B&#252;ro</Key><Value>K&#xF6;ln</Value></Tag><Tag><Key>owner</Key><Value>old</Value></Tag>
</TagSet></Tagging>`)
	})
	if value, tagged, err := c.Tag(t.Context(), "owner"); value != "old" || !tagged || err != nil {
		t.Errorf("the tag is %q, tagged %t, %v", value, tagged, err)
	}
	if err := c.SetTag(t.Context(), "owner", "new"); err != nil {
		t.Fatal(err)
	}
	const want = "<Tagging><TagSet><Tag><Key>owner</Key><Value>new</Value></Tag></TagSet></Tagging>"
	if diff := cmp.Diff(want, put); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// A service without tags of buckets has a reason of its own. Another failure has not.
func TestTag_not_supported(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"501":              {501, "<Error><Code>NotImplemented</Code></Error>", v1beta1.ReasonTagsNotSupported},
		"501 without code": {501, "", v1beta1.ReasonTagsNotSupported},
		"400":              {400, "<Error><Code>NotImplemented</Code></Error>", v1beta1.ReasonTagsNotSupported},
		"405":              {405, "<Error><Code>MethodNotAllowed</Code></Error>", v1beta1.ReasonTagsNotSupported},
		"403":              {403, "<Error><Code>AccessDenied</Code></Error>", v1beta1.ReasonAccessDenied},
		"500":              {500, "<Error><Code>InternalError</Code></Error>", v1beta1.ReasonServerError},
		"a page":           {200, "<html></html>", v1beta1.ReasonServerError},
		"a list":           {200, "<ListBucketResult/>", v1beta1.ReasonServerError},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			_, tagged, err := c.Tag(t.Context(), "owner")
			if v := VerdictOf(err); v == nil || v.Reason != tc.want || tagged {
				t.Errorf("tagged %t, %+v, want %s", tagged, v, tc.want)
			}
		})
	}
}
