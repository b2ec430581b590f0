package markdownview

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

func TestValidateCreate_returns_all_errors(t *testing.T) {
	_, err := (&Webhook{}).ValidateCreate(t.Context(), view(showing(files{"a/b": ""}), replicas(9), image(" ")))
	if !apierrors.IsInvalid(err) {
		t.Fatalf("got %v, want Invalid", err)
	}
	for _, part := range []string{"markdowns must have SUMMARY.md.", "a/b", "replicas must be in the range of 1 to 5.",
		"spec.viewerImage"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}

// A view that violates a newer rule can still be changed in other fields.
func TestValidateUpdate_checks_only_changes(t *testing.T) {
	bad := func() *v1beta1.MarkdownView { return view(showing(files{"a/b": ""}), replicas(9), image(" ")) }
	for reason, tc := range map[string]struct {
		change  func(*v1beta1.MarkdownView)
		refused string
	}{
		"a label":                {func(v *v1beta1.MarkdownView) { v.Labels = map[string]string{"a": "b"} }, ""},
		"valid replicas":         {replicas(3), ""},
		"a valid image":          {image("a:1"), ""},
		"other invalid replicas": {replicas(8), "spec.replicas"},
		"another invalid image":  {image("  "), "spec.viewerImage"},
		"other invalid files":    {showing(files{"c/d": ""}), "spec.markdowns"},
		"valid files":            {showing(files{"SUMMARY.md": ""}), ""},
		"invalid arguments":      {args("a", "b\x7f"), "spec.viewerArgs[1]"},
		"valid arguments":        {args("a"), ""},
		"invalid files, but terminating": {func(v *v1beta1.MarkdownView) {
			v.DeletionTimestamp, v.Spec.Markdowns = new(metav1.Now()), files{"c/d": ""}
		}, ""},
	} {
		t.Run(reason, func(t *testing.T) {
			changed := bad()
			tc.change(changed)
			_, err := (&Webhook{}).ValidateUpdate(t.Context(), bad(), changed)
			if (err != nil) != (tc.refused != "") || (err != nil && !strings.Contains(err.Error(), tc.refused)) {
				t.Errorf("got %v, want an error for %q", err, tc.refused)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	many := files{"SUMMARY.md": ""}
	for i := range 50 {
		many[fmt.Sprintf("%s%02d.md", strings.Repeat("n", 200), i)] = ""
	}
	for reason, tc := range map[string]struct {
		with func(*v1beta1.MarkdownView)
		want []string // the beginning of each warning
	}{
		"valid": {func(*v1beta1.MarkdownView) {}, nil},
		"a missing file": {showing(files{"SUMMARY.md": "[a](a.md)"}),
			[]string{`SUMMARY.md links to files that are not in markdowns: "a.md"`}},
		"an unlisted file": {showing(files{"SUMMARY.md": "", "a.md": ""}), []string{`SUMMARY.md has no link to: "a.md"`}},
		"many":             {showing(many), []string{"SUMMARY.md has no link to: "}},
		"no SUMMARY.md":    {showing(files{"a.md": ""}), nil}, // the response is an error
		"a SUMMARY.md so long that it is not read": {showing(files{"SUMMARY.md": v1beta1.MarkdownText(strings.Repeat("x\n",
			64<<10))}),
			[]string{"SUMMARY.md is longer than 65536 bytes"}},
		"latest":             {image("a:latest"), []string{"viewerImage a:latest has the tag latest"}},
		"a very long latest": {image(strings.Repeat("a", 200) + ":latest"), []string{"viewerImage aaa"}},
		"everything": {func(v *v1beta1.MarkdownView) {
			v.Spec.Markdowns, v.Spec.ViewerImage = files{"SUMMARY.md": "[a](a.md)", "b.md": ""}, "a"
		}, []string{"SUMMARY.md links", "SUMMARY.md has no link", "viewerImage a has no tag"}},
	} {
		t.Run(reason, func(t *testing.T) {
			warnings, _ := (&Webhook{}).ValidateCreate(t.Context(), view(tc.with))
			var got []string
			for i, w := range warnings {
				// The API server truncates longer warnings.
				if utf8.RuneCountInString(w) > 256 {
					t.Errorf("a warning of %d characters: %s", utf8.RuneCountInString(w), w)
				}
				if i < len(tc.want) && strings.HasPrefix(w, tc.want[i]) {
					w = tc.want[i]
				}
				got = append(got, w)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// An update of the files or the image returns the warnings of both. Any other update returns none.
func TestValidateUpdate_warns_of_changed_files_or_image(t *testing.T) {
	const latest, unlisted = "viewerImage a:latest has the tag latest", `SUMMARY.md has no link to: "b.md"`
	amiss := view(image("a:latest"), showing(files{"SUMMARY.md": "", "b.md": ""}))
	fine := view(image("a:1"), showing(files{"SUMMARY.md": ""}))
	for reason, tc := range map[string]struct {
		old  *v1beta1.MarkdownView
		with func(*v1beta1.MarkdownView)
		want []string
	}{
		"the image":              {fine, image("a:latest"), []string{latest}},
		"the files":              {fine, showing(files{"SUMMARY.md": "", "b.md": ""}), []string{unlisted}},
		"both":                   {fine, func(v *v1beta1.MarkdownView) { v.Spec = amiss.Spec }, []string{unlisted, latest}},
		"the image, which mends": {amiss, image("a:1"), []string{unlisted}},
		"the files, which mends": {amiss, showing(files{"SUMMARY.md": ""}), []string{latest}},
		"replicas":               {amiss, replicas(3), nil},
		"a label":                {amiss, func(v *v1beta1.MarkdownView) { v.Labels = map[string]string{"a": "b"} }, nil},
		"nothing":                {amiss, func(*v1beta1.MarkdownView) {}, nil},
		"the image, terminating": {amiss, func(v *v1beta1.MarkdownView) {
			v.DeletionTimestamp, v.Spec.ViewerImage = new(metav1.Now()), "b:latest"
		}, nil},
	} {
		changed := tc.old.DeepCopy()
		tc.with(changed)
		warnings, err := (&Webhook{}).ValidateUpdate(t.Context(), tc.old, changed)
		got := make([]string, 0, len(warnings))
		for _, warning := range warnings {
			for _, known := range []string{latest, unlisted} {
				if strings.HasPrefix(warning, known) {
					warning = known
				}
			}
			got = append(got, warning)
		}
		if !slices.Equal(got, tc.want) || err != nil {
			t.Errorf("%s: warnings %q (%v), want %q", reason, got, err, tc.want)
		}
	}
}

// quoting returns a view that needs this number of bytes in etcd, nearly all for quotation marks.
func quoting(t *testing.T, bytes int) *v1beta1.MarkdownView {
	t.Helper()
	v := view(showing(files{"SUMMARY.md": "", "a.md": ""}))
	rest := bytes - storedBytes(v)
	v.Spec.Markdowns["a.md"] = v1beta1.MarkdownText(strings.Repeat(`"`, rest/2) + strings.Repeat("x", rest%2))
	if got := storedBytes(v); got != bytes {
		t.Fatalf("%d bytes, want %d", got, bytes)
	}
	return v
}

func TestValidateCreate_stored_size(t *testing.T) {
	const limit = 1507328 // 1.5 MiB without 64 KiB
	for size, refused := range map[int]bool{limit: false, limit + 1: true} {
		_, err := (&Webhook{}).ValidateCreate(t.Context(), quoting(t, size))
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), "shorten the annotations") {
			t.Errorf("%d bytes: got %v, want it refused: %t", size, err, refused)
		}
	}
}

// What counts is what etcd stores: the escapes of the JSON and the metadata.
func TestStoredBytes(t *testing.T) {
	const n = 1000
	for text, want := range map[string]int{
		"x": 1, "\"": 2, "\\": 2, "\n": 2, "\t": 2, "<": 6, ">": 6, "&": 6, "\x00": 6, "\x1b": 6, "\u2028": 6, "\u2029": 6,
		"\u00e9": 2, "\U0001F600": 4, "'": 1, "/": 1,
	} {
		base := storedBytes(view(showing(files{"SUMMARY.md": ""})))
		v := view(showing(files{"SUMMARY.md": v1beta1.MarkdownText(strings.Repeat(text, n))}))
		if got := storedBytes(v) - base; got != n*want {
			t.Errorf("%d times %q: %d bytes, want %d each", n, text, got, want)
		}
	}
	for what, with := range map[string]func(*v1beta1.MarkdownView){
		"an annotation": func(v *v1beta1.MarkdownView) { v.Annotations = map[string]string{"a": strings.Repeat("<", n)} },
		"a file's name": showing(files{"SUMMARY.md": "- [A](a.md)\n", "a.md": "x", strings.Repeat("a", 6*n) + ".md": ""}),
		"managed fields": func(v *v1beta1.MarkdownView) {
			fields := `{"f:a` + strings.Repeat("a", 6*n) + `":{}}`
			v.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(fields)}}
		},
	} {
		if got := storedBytes(view(with)) - storedBytes(view()); got < 6*n {
			t.Errorf("%s: %d bytes more, want at least %d", what, got, 6*n)
		}
	}
}

// A view that is too large may shrink in steps, and change without growing.
func TestValidateUpdate_stored_size(t *testing.T) {
	const limit = v1beta1.MaxMarkdownViewBytes
	annotated := func(v *v1beta1.MarkdownView) *v1beta1.MarkdownView {
		v.Annotations = map[string]string{"a": "b"}
		return v
	}
	for reason, tc := range map[string]struct {
		old, changed *v1beta1.MarkdownView
		refused      bool
	}{
		"grows to the limit":        {view(), quoting(t, limit), false},
		"grows beyond it":           {view(), quoting(t, limit+1), true},
		"grows by metadata alone":   {quoting(t, limit), annotated(quoting(t, limit)), true},
		"grows further":             {quoting(t, limit+2), quoting(t, limit+3), true},
		"stays too large":           {quoting(t, limit+2), quoting(t, limit+2), false},
		"shrinks, and is too large": {quoting(t, limit+2), quoting(t, limit+1), false},
		"loses an annotation":       {annotated(quoting(t, limit+2)), quoting(t, limit+2), false},
		"grows, but it is terminating": {view(), func() *v1beta1.MarkdownView {
			v := quoting(t, limit+1)
			v.DeletionTimestamp = new(metav1.Now())
			return v
		}(), false},
	} {
		_, err := (&Webhook{}).ValidateUpdate(t.Context(), tc.old, tc.changed)
		if tc.refused != (err != nil) || tc.refused && !strings.Contains(err.Error(), "1507328") {
			t.Errorf("%s: got %v, want it refused: %t", reason, err, tc.refused)
		}
	}
}
