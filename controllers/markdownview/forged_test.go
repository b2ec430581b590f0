package markdownview

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"leasehold.dev/api/v1beta1"
)

// A review without credentials need not satisfy the schema. Its answer is short, whatever it has.
func TestForgedReviewsHaveShortAnswers(t *testing.T) {
	forged := func(n, arguments int) *v1beta1.MarkdownView {
		v := view()
		v.Spec.Markdowns = files{"SUMMARY.md": ""}
		for i := range n - 1 {
			v.Spec.Markdowns[fmt.Sprint("a/", i)] = ""
		}
		v.Spec.ViewerArgs = make([]v1beta1.ViewerArg, arguments)
		return v
	}
	for most, v := range map[string]*v1beta1.MarkdownView{"128": forged(129, 0), "32": forged(1, 33)} {
		_, created := (&Webhook{}).ValidateCreate(t.Context(), v)
		_, updated := (&Webhook{}).ValidateUpdate(t.Context(), forged(1, 0), v)
		for _, err := range []error{created, updated} {
			if !apierrors.IsInvalid(err) || len(err.Error()) > 200 ||
				!strings.Contains(err.Error(), "must have at most "+most+" items") {
				t.Errorf("got %.300v, want one short error", err)
			}
		}
	}
	if err := validateForm(forged(128, 32)); err != nil {
		t.Errorf("got %v for as many as the schema permits", err)
	}
	long := strings.Repeat("<", 1<<20)
	for what, with := range map[string]func(*v1beta1.MarkdownView){
		"name":  func(v *v1beta1.MarkdownView) { v.Name = long },
		"image": image(long),
		"file":  showing(files{"SUMMARY.md": "", long: ""}),
	} {
		_, created := (&Webhook{}).ValidateCreate(t.Context(), view(with))
		_, updated := (&Webhook{}).ValidateUpdate(t.Context(), view(), view(with))
		for _, err := range []error{created, updated} {
			if !apierrors.IsInvalid(err) || len(err.Error()) > 200 {
				t.Errorf("%s: got %.300v, want one short error", what, err)
			}
		}
	}
}
