package markdownview

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/markdownview/summary"
)

// There is no webhook for DELETE, and none for the scale subresource, whose limits are in the
// schema.
//
// +kubebuilder:webhook:path=/validate-leasehold-dev-v1beta1-markdownview,mutating=false,failurePolicy=fail,sideEffects=None,groups=leasehold.dev,resources=markdownviews,verbs=create;update,versions=v1beta1,name=vmarkdownview.leasehold.dev,admissionReviewVersions=v1,timeoutSeconds=5,matchPolicy=Equivalent

// SetupWebhookWithManager adds the validating webhook. It runs on every replica and reads only the
// request. No webhook writes the default image into a spec: a later default of the operator could
// not replace it there.
func SetupWebhookWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewWebhookManagedBy(mgr, &v1beta1.MarkdownView{}).WithValidator(&Webhook{}).
		WithLogConstructor(reporting.LogOfReview).Complete()
	if err != nil {
		return fmt.Errorf("adding markdownview webhook: %w", err)
	}
	return nil
}

// Webhook validates MarkdownViews. It sends no requests and renders nothing.
type Webhook struct{}

var _ admission.Validator[*v1beta1.MarkdownView] = &Webhook{}

// ValidateCreate returns all errors of the spec, and warnings for probable mistakes.
func (w *Webhook) ValidateCreate(_ context.Context, v *v1beta1.MarkdownView) (admission.Warnings, error) {
	if err := validateForm(v); err != nil {
		return nil, err
	}
	return warn(v), invalid(v, append(validate(v), validateSize(v)...))
}

// ValidateUpdate validates only the changed fields, and the size only if it grows. A MarkdownView
// that violates a newer rule can still be changed in other fields.
func (w *Webhook) ValidateUpdate(_ context.Context, old, v *v1beta1.MarkdownView) (admission.Warnings, error) {
	if !v.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	sameFiles, sameImage := maps.Equal(old.Spec.Markdowns, v.Spec.Markdowns), old.Spec.ViewerImage == v.Spec.ViewerImage
	// Replicas, an image and arguments that are not set are valid.
	changed := &v1beta1.MarkdownView{ObjectMeta: metav1.ObjectMeta{Name: v.Name}}
	if !sameFiles {
		changed.Spec.Markdowns = v.Spec.Markdowns
	}
	if old.Spec.Replicas != v.Spec.Replicas {
		changed.Spec.Replicas = v.Spec.Replicas
	}
	if !sameImage {
		changed.Spec.ViewerImage = v.Spec.ViewerImage
	}
	if !slices.Equal(old.Spec.ViewerArgs, v.Spec.ViewerArgs) {
		changed.Spec.ViewerArgs = v.Spec.ViewerArgs
	}
	if err := validateForm(changed); err != nil {
		return nil, err
	}
	errs := validateOptional(changed.Spec)
	if !sameFiles {
		errs = append(validateMarkdowns(v.Spec.Markdowns), errs...)
	}
	if tooLarge := validateSize(v); tooLarge != nil && storedBytes(v) > storedBytes(old) {
		errs = append(errs, tooLarge...)
	}
	if sameFiles && sameImage {
		return nil, invalid(v, errs)
	}
	return warn(v), invalid(v, errs)
}

// ValidateDelete is never called: the webhook has no rule for DELETE.
func (w *Webhook) ValidateDelete(context.Context, *v1beta1.MarkdownView) (admission.Warnings, error) {
	return nil, nil
}

// maxFileName is the largest length of a file's name.
const maxFileName = 253

// validateForm repeats limits of the schema, before anything else is checked. Its errors quote
// nothing. The attacker is a client that sends reviews without credentials: one error for each of
// 5,000 files takes seconds to join, and one that quotes a name of 7 MiB needs more memory than a
// replica has.
func validateForm(v *v1beta1.MarkdownView) error {
	var errs field.ErrorList
	if n := len(v.Spec.Markdowns); n > v1beta1.MaxMarkdowns {
		errs = append(errs, field.TooMany(markdownsPath, n, v1beta1.MaxMarkdowns))
	}
	if n := len(v.Spec.ViewerArgs); n > v1beta1.MaxViewerArgs {
		errs = append(errs, field.TooMany(viewerArgsPath, n, v1beta1.MaxViewerArgs))
	}
	for name := range v.Spec.Markdowns {
		if len(name) > maxFileName {
			errs = append(errs, field.TooLong(markdownsPath, "", maxFileName))
			break
		}
	}
	if utf8.RuneCountInString(v.Spec.ViewerImage) > v1beta1.MaxViewerImage {
		errs = append(errs, field.TooLong(viewerImagePath, "", v1beta1.MaxViewerImage))
	}
	if len(v.Name) > validation.DNS1123SubdomainMaxLength {
		errs = field.ErrorList{field.TooLong(field.NewPath("metadata", "name"), "", validation.DNS1123SubdomainMaxLength)}
		return apierrors.NewInvalid(viewKind.GroupKind(), "", errs)
	}
	return invalid(v, errs)
}

func invalid(v *v1beta1.MarkdownView, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(viewKind.GroupKind(), v.Name, errs)
}

// warn returns warnings for probable mistakes that are allowed.
func warn(v *v1beta1.MarkdownView) admission.Warnings {
	var warnings admission.Warnings
	problems := summary.Check(contents(v))
	if len(problems.Missing) > 0 {
		warnings = append(warnings, "SUMMARY.md links to files that are not in markdowns: "+joinNames(problems.Missing))
	}
	if _, listed := v.Spec.Markdowns[summary.FileName]; listed && len(problems.Unlisted) > 0 {
		warnings = append(warnings, "SUMMARY.md has no link to: "+joinNames(problems.Unlisted))
	}
	if problems.Truncated {
		warnings = append(warnings,
			fmt.Sprintf("SUMMARY.md is longer than %d bytes or has a line longer than %d; the rest is ignored",
				summary.MaxBytes, summary.MaxLineBytes))
	}
	if why := unpinned(v.Spec.ViewerImage); why != "" && v.Spec.ViewerImage != "" {
		warnings = append(warnings,
			fmt.Sprintf("viewerImage %s %s, so viewers may run different images; name a tag that does not change, or a digest",
				truncate(v.Spec.ViewerImage, 120), why))
	}
	return warnings
}

// joinNames joins names for a warning, of which the API server passes on 256 characters.
func joinNames(names []string) string {
	const most, long = 4, 30
	var shown []string
	for _, name := range names[:min(most, len(names))] {
		shown = append(shown, fmt.Sprintf("%q", truncate(name, long)))
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func truncate(text string, long int) string {
	if len(text) > long {
		return text[:long] + "..."
	}
	return text
}

// contents returns the files as plain strings.
func contents(v *v1beta1.MarkdownView) map[string]string {
	files := make(map[string]string, len(v.Spec.Markdowns))
	for name, text := range v.Spec.Markdowns {
		files[name] = string(text)
	}
	return files
}

var viewKind = v1beta1.GroupVersion.WithKind("MarkdownView")
