// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"context"
	"maps"
	"slices"

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
	return ctrl.NewWebhookManagedBy(mgr, &v1beta1.MarkdownView{}).WithValidator(&Webhook{}).
		WithLogConstructor(reporting.LogOfReview).Complete()
}

// Webhook validates MarkdownViews. It sends no requests, and parses no Markdown, which would take the memory and
// time of all authors. Anyone may call it with any object, so lists are counted before their elements are read.
type Webhook struct{}

// ValidateCreate returns all errors of the spec, and warnings for probable mistakes.
func (w *Webhook) ValidateCreate(_ context.Context, v *v1beta1.MarkdownView) (admission.Warnings, error) {
	if errs := validateCounts(v); errs != nil {
		return nil, invalid(v, errs)
	}
	return warn(v), invalid(v, slices.Concat(validate(v), validateTexts(v), validateSize(v)))
}

// ValidateUpdate returns the errors that the former object did not have, and that of the size only
// if it grows. A MarkdownView that violates a newer rule can still be changed otherwise.
func (w *Webhook) ValidateUpdate(_ context.Context, old, v *v1beta1.MarkdownView) (admission.Warnings, error) {
	if !v.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	if errs := append(validateCounts(old), validateCounts(v)...); errs != nil {
		return nil, invalid(v, errs)
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

var viewKind = v1beta1.GroupVersion.WithKind("MarkdownView")
