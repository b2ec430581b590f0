// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
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

// Webhook validates MarkdownViews. It sends no requests, and parses no Markdown: that needs memory
// and time, of which each author would take those of all.
type Webhook struct{}

var _ admission.Validator[*v1beta1.MarkdownView] = &Webhook{}

// ValidateCreate returns all errors of the spec, and warnings for probable mistakes.
func (w *Webhook) ValidateCreate(_ context.Context, v *v1beta1.MarkdownView) (admission.Warnings, error) {
	return warn(v), invalid(v, slices.Concat(validate(v), validateTexts(v), validateSize(v)))
}

// ValidateUpdate returns the errors that the former object did not have, and that of the size only
// if it grows. A MarkdownView that violates a newer rule can still be changed otherwise.
func (w *Webhook) ValidateUpdate(_ context.Context, old, v *v1beta1.MarkdownView) (admission.Warnings, error) {
	if !v.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	former := map[string]bool{}
	for _, err := range slices.Concat(validate(old), validateTexts(old)) {
		former[err.Error()] = true
	}
	errs := slices.DeleteFunc(slices.Concat(validate(v), validateTexts(v)),
		func(err *field.Error) bool { return former[err.Error()] })
	if tooLarge := validateSize(v); tooLarge != nil && storedBytes(v) > storedBytes(old) {
		errs = append(errs, tooLarge...)
	}
	if maps.Equal(old.Spec.Markdowns, v.Spec.Markdowns) && old.Spec.ViewerImage == v.Spec.ViewerImage {
		return nil, invalid(v, errs)
	}
	return warn(v), invalid(v, errs)
}

// ValidateDelete is never called: the webhook has no rule for DELETE.
func (w *Webhook) ValidateDelete(context.Context, *v1beta1.MarkdownView) (admission.Warnings, error) {
	return nil, nil
}

func invalid(v *v1beta1.MarkdownView, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(viewKind.GroupKind(), truncate(v.Name), errs)
}

// warn returns warnings for probable mistakes that are allowed.
func warn(v *v1beta1.MarkdownView) admission.Warnings {
	if v.Spec.ViewerImage != "" {
		if why := unpinned(v.Spec.ViewerImage); why != "" {
			return admission.Warnings{fmt.Sprintf(
				"viewerImage %s %s, so viewers may run different images; name a tag that does not change, or a digest",
				truncate(v.Spec.ViewerImage), why)}
		}
		return nil
	}
	names := slices.Sorted(maps.Keys(v.Spec.Markdowns))
	summary := string(v.Spec.Markdowns[summaryName])
	var warnings admission.Warnings
	unnamed := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return name == summaryName || strings.Contains(summary, name)
	})
	if len(unnamed) > 0 {
		warnings = append(warnings, fmt.Sprintf("SUMMARY.md does not name %s (files that it does not name: %d)",
			truncate(unnamed[0]), len(unnamed)))
	}
	for _, name := range names {
		if line := lineOfHTML(string(v.Spec.Markdowns[name])); line > 0 {
			return append(warnings, fmt.Sprintf(
				"%s has HTML in line %d; the default viewer shows no HTML, so write Markdown, or code between backquotes",
				truncate(name), line))
		}
	}
	return warnings
}

// element matches the beginning of an HTML element outside of code.
var element = regexp.MustCompile("^[^`]*</?[A-Za-z][A-Za-z0-9-]*[\\s/>]")

// lineOfHTML returns the first line that has an element and is no code; 0 if there is none. It reads
// the text once, and parses nothing.
func lineOfHTML(text string) int {
	n, inFence := 0, false
	for line := range strings.Lines(text) {
		n++
		start := strings.TrimLeft(line, " ")
		if strings.HasPrefix(start, "```") || strings.HasPrefix(start, "~~~") {
			inFence = !inFence
		}
		if !inFence && len(line)-len(start) < 4 && element.MatchString(line) {
			return n
		}
	}
	return 0
}

var viewKind = v1beta1.GroupVersion.WithKind("MarkdownView")
