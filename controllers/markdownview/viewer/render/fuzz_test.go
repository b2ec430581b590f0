package render

import (
	"bytes"
	"testing"
)

// FuzzHTML checks for any text that nothing panics, that the page has only safe elements, and that
// the same text gives the same page.
func FuzzHTML(f *testing.F) {
	for _, attack := range attacks {
		f.Add([]byte(attack))
	}
	for _, text := range hostile {
		f.Add([]byte(text(100)))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		page, err := HTML(source)
		if err != nil {
			t.Fatal(err)
		}
		if found := unsafeParts(t, string(page)); found != nil {
			t.Errorf("%q is rendered with %q:\n%s", source, found, page)
		}
		if bytes.Contains(bytes.ToLower(page), []byte("<script")) {
			t.Errorf("%q has a script:\n%s", source, page)
		}
		again, err := HTML(source)
		if err != nil || !bytes.Equal(page, again) {
			t.Errorf("%q is rendered differently the second time: %v", source, err)
		}
	})
}
