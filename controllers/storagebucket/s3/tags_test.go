package s3

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ReplaceTag keeps each tag that S3 permits, and other services may permit more characters.
func TestReplaceTag_keeps_tags_of_others(t *testing.T) {
	longest := []bucketTag{}
	for i := range 49 {
		longest = append(longest, bucketTag{fmt.Sprintf("%02d", i) + strings.Repeat("é", 126), strings.Repeat("&", 256)})
	}
	for name, others := range map[string][]bucketTag{
		"letters beyond ASCII":          {{"Büro", "Köln"}, {"部門", "経理 🪣"}},
		"all punctuation of S3":         {{"a b+c-d=e.f_g:h/i@j", " x "}},
		"characters that XML escapes":   {{"a<b>&\"'", "c&amp;\t\n"}},
		"characters that S3 refuses":    {{"a*?#%", "(b)[c]{d}|~^`;!$,\\"}},
		"no value":                      {{"empty", ""}},
		"the most and the longest":      longest,
		"more than S3 permits":          make([]bucketTag, 80),
		"a key twice, which S3 refuses": {{"a", "1"}, {"a", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			stored := taggingBody{TagSet: tagSet{append(slices.Clip(others), bucketTag{"owner", "old"})}}
			c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					content, _ := io.ReadAll(r.Body)
					stored = taggingBody{}
					if err := xml.Unmarshal(content, &stored); err != nil {
						t.Error(err)
					}
					return
				}
				content, _ := xml.Marshal(stored)
				_, _ = w.Write(content)
			})
			if value, tagged, err := c.Tag(t.Context(), "owner"); value != "old" || !tagged || err != nil {
				t.Errorf("the tag is %q, tagged %t, %v", value, tagged, err)
			}
			if err := c.ReplaceTag(t.Context(), "owner", "old", "new"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append(slices.Clip(others), bucketTag{"owner", "new"}),
				stored.TagSet.Tags); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
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
	if err := c.ReplaceTag(t.Context(), "owner", "old", "new"); err != nil {
		t.Fatal(err)
	}
	const want = "<Tagging><TagSet><Tag><Key>Büro</Key><Value>Köln</Value></Tag>" +
		"<Tag><Key>owner</Key><Value>new</Value></Tag></TagSet></Tagging>"
	if diff := cmp.Diff(want, put); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestTagsAreBounded(t *testing.T) {
	for size, readable := range map[int]bool{maxTags: true, maxTags + 1: false} {
		c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "<Tagging>%s</Tagging>", strings.Repeat(" ", size-len("<Tagging></Tagging>")))
		})
		if _, tagged, err := c.Tag(t.Context(), "owner"); tagged || (err == nil) != readable {
			t.Errorf("tags of %d bytes: tagged %t, %v", size, tagged, err)
		}
	}
}

// ReplaceTag does not replace a value that has changed since it was read.
func TestReplaceTag_changed_value(t *testing.T) {
	c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<Tagging><TagSet><Tag><Key>owner</Key><Value>old</Value></Tag></TagSet></Tagging>")
	})
	err := c.ReplaceTag(t.Context(), "owner", "older", "new")
	if diff := cmp.Diff([]string{"GET /team-data?tagging="}, requests()); diff != "" || Code(err) != CodeChanged {
		t.Errorf("error %v, want %s; requests (-want +got):\n%s", err, CodeChanged, diff)
	}
}
