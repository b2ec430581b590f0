package denial

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fenceResponse returns the response of an admission policy with this name.
func fenceResponse(code int32, reason metav1.StatusReason, policy, said string) error {
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", policy, policy, said)
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: `namespaces "a" is forbidden: ` + message,
		Details: &metav1.StatusDetails{Kind: "namespaces", Name: "a", Causes: []metav1.StatusCause{{Message: message}}},
	}}
}

func TestByFence(t *testing.T) {
	const ours = "leasehold-fence.leasehold.dev"
	resource := schema.GroupResource{Resource: "namespaces"}
	said := errors.New("ValidatingAdmissionPolicy '" + ours + "' denied request")
	standby := fenceResponse(http.StatusForbidden, metav1.StatusReasonForbidden, ours, "Pod a does not hold the Lease")
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Namespace"}, "a", nil).Status()
	invalid.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.name",
		Message: "no name"}}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"by the fence": {standby, true},
		"as it is misconfigured": {fenceResponse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			ours, "failed to configure binding"), true},
		"under another prefix": {fenceResponse(http.StatusForbidden, metav1.StatusReasonForbidden,
			"team-fence.leasehold.dev", "no"), true},
		"said within another error": {fmt.Errorf("writing status: %w", standby), true},
		"by another policy": {fenceResponse(http.StatusForbidden, metav1.StatusReasonForbidden,
			"limits.example.com", "no"), false},
		"by another policy with the same message": {fenceResponse(http.StatusForbidden, metav1.StatusReasonForbidden,
			"limits.example.com", said.Error()), false},
		"by RBAC": {apierrors.NewForbidden(resource, "a",
			errors.New(`User "b" cannot create resource`)), false},
		"by RBAC, in our words": {apierrors.NewForbidden(resource, "a", said), false},
		"as it is invalid":      {&apierrors.StatusError{ErrStatus: invalid}, false},
		"by a concurrent write": {apierrors.NewConflict(resource, "a", said), false},
		"without details": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden,
			Message: said.Error()}}, false},
		"by no policy": {said, false},
		"not at all":   {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ByFence(tc.err); got != tc.want {
				t.Errorf("ByFence(%v) = %t, want %t", tc.err, got, tc.want)
			}
		})
	}
}
