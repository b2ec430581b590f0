package render

import (
	"bytes"
	"testing"
)

// FuzzHTML: whatever the text, no panic, nothing but harmless elements, and the
// same page for the same text.
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
		if found := unsafe(t, string(page)); found != nil {
			t.Errorf("%q is shown with %q:\n%s", source, found, page)
		}
		if bytes.Contains(bytes.ToLower(page), []byte("<script")) {
			t.Errorf("%q has a script:\n%s", source, page)
		}
		again, err := HTML(source)
		if err != nil || !bytes.Equal(page, again) {
			t.Errorf("%q is shown differently the second time: %v", source, err)
		}
	})
}
