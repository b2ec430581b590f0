// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"leasehold.dev/api/v1beta1"
)

var bindings = schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}

// forbidden returns the API server's response to a denied request for a RoleBinding.
func forbidden(text string, causes ...metav1.StatusCause) error {
	err := apierrors.NewForbidden(bindings, "leasehold:tenant-admin", errors.New(text))
	err.ErrStatus.Details.Causes = causes
	return err
}

// byPolicy returns the response of a ValidatingAdmissionPolicy with this code.
func byPolicy(code int32, policy, text string) error {
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", policy, policy, text)
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code,
		Message: `namespaces "a" is forbidden: ` + message,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: message}}}}}
}

// byMutatingPolicy returns the response of a MutatingAdmissionPolicy whose expression fails.
func byMutatingPolicy(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden,
		Reason: metav1.StatusReasonInvalid, Message: message,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: message}}}}}
}

// byWebhook returns the response of an admission webhook with this code.
func byWebhook(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

// withCause returns a response with a cause that its sender has chosen.
func withCause(err error, message string) error {
	status := err.(*apierrors.StatusError) //nolint:errorlint // made by the caller
	status.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: message}}}
	return status
}

func TestOf(t *testing.T) {
	const (
		rbac, admission, quota = v1beta1.ReasonRBACForbidden, v1beta1.ReasonAdmissionDenied, v1beta1.ReasonQuotaExceeded
		failed                 = v1beta1.ReasonReconcileFailed
		exceeded               = "exceeded quota: small, requested: count/configmaps=1, used: count/configmaps=2, " +
			"limited: count/configmaps=2"
	)
	for name, tc := range map[string]struct {
		err    error
		want   *Kind
		reason string
	}{
		"authorizer": {forbidden(
			`User "op" cannot create resource "rolebindings" in API group "x" in the namespace "a"`), RBAC, rbac},
		"cluster scope": {forbidden(
			`User "op" cannot list resource "x" in API group "" at the cluster scope: RBAC: clusterrole "y" not found`),
			RBAC, rbac},
		"authorizer quoting a webhook": {forbidden(
			`User "op" cannot create resource "x" in API group "": admission webhook "w" denied the request`),
			RBAC, rbac},
		"escalation": {forbidden("user \"op\" (groups=[\"a\" \"b\"]) is attempting to grant RBAC permissions not " +
			"currently held:\n{...}"), Grant, rbac},
		"owner reference": {forbidden("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't " +
			"set finalizers on: , <nil>"), RBAC, rbac},
		"owner": {forbidden("cannot set an ownerRef on a resource you can't delete: , <nil>"),
			RBAC, rbac},
		"wrapped": {fmt.Errorf("creating: %w", forbidden(`User "op" cannot create`+" resource")),
			RBAC, rbac},

		"policy, 403": {byPolicy(http.StatusForbidden, "limits.example.com", "no"),
			Admission, admission},
		"policy, default reason": {byPolicy(http.StatusUnprocessableEntity, "limits.example.com", "no"),
			Admission, admission},
		"policy quoting RBAC": {byPolicy(http.StatusForbidden, "p", `User "op" cannot create`),
			Admission, admission},
		"mutating policy": {byMutatingPolicy(`policy 'cost.example.com' with binding 'b' denied request: ` +
			`expression failed: no such key: x`),
			Admission, admission},
		"mutating policy, no binding": {byMutatingPolicy(`policy "cost.example.com" denied request: no params found`),
			Admission, admission},
		"webhook, dry run": {byWebhook(http.StatusBadRequest, `admission webhook "w.example.com" does not support dry run`),
			Admission, admission},
		"webhook, 403": {byWebhook(http.StatusForbidden,
			`admission webhook "w.example.com" denied the request: no`), Admission, admission},
		"webhook, 400": {byWebhook(http.StatusBadRequest,
			`admission webhook "w.example.com" denied the request without explanation`),
			Admission, admission},
		"webhook quoting quota": {byWebhook(http.StatusForbidden,
			`admission webhook "w" denied the request: x is forbidden: exceeded quota: q,`), Admission, admission},
		"plugin": {forbidden(`violates PodSecurity "restricted:latest"`), Admission, admission},

		"quota":                   {forbidden(exceeded), Quota, quota},
		"quota that needs values": {forbidden("failed quota: small: must specify cpu"), Quota, quota},
		"quota not yet counted": {forbidden("status unknown for quota: small, resources: pods"),
			Quota, quota},
		"no quota where one must be": {forbidden("insufficient quota to consume: pods"), Quota, quota},
		"plugin quoting a quota": {forbidden("labels: insufficient quota to consume: pods"),
			Admission, admission},
		"RBAC quoting a quota": {forbidden(`User "exceeded quota: small," cannot create resource`),
			RBAC, rbac},
		"namespace on its way out": {forbidden("unable to create new content",
			metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}), Terminating, v1beta1.ReasonNamespaceTerminating},
		"conflict": {apierrors.NewConflict(bindings, "a", errors.New(exceeded)), Changed, failed},
		"conflict by a webhook": {byWebhook(http.StatusConflict, `admission webhook "w" denied the request: no`), Admission,
			admission},
		"conflict beside an error of ours": {errors.Join(New(Foreign, "x"), apierrors.NewConflict(bindings, "a", nil)),
			Changed, failed},
		"invalid, quoting a policy": {apierrors.NewInvalid(schema.GroupKind{Kind: "RoleBinding"},
			"ValidatingAdmissionPolicy 'p' denied request", nil), Unstorable, failed},
		"unreachable webhook": {apierrors.NewInternalError(errors.New(`failed calling webhook "w": no endpoints`)),
			Unstorable, failed},
		"too large":                   {apierrors.NewRequestEntityTooLargeError("x"), Unstorable, failed},
		"no answer of the API server": {errors.New(`User "op" cannot create`), Other, failed},
		"the operator stops":          {fmt.Errorf("reading: %w", context.Canceled), Canceled, failed},
		"the time is over":            {fmt.Errorf("reading: %w", context.DeadlineExceeded), Other, failed},
		"an error of ours": {fmt.Errorf("cluster role a: %w", New(Foreign, "belongs to another")), Foreign,
			v1beta1.ReasonChildConflict},
		"an error of ours beside a denial": {errors.Join(forbidden("exceeded quota: small,"), New(Grant, "x")), Grant, rbac},
		"no error":                         {nil, None, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(tc.err); got != tc.want || got.Reason != tc.reason {
				t.Errorf("Of(%v) = %v with reason %q, want %v with %q", tc.err, got, got.Reason, tc.want, tc.reason)
			}
		})
	}
}

// Only the fence, under any prefix, denies what another leader may do.
func TestOf_fence(t *testing.T) {
	const fence = "leasehold-fence.leasehold.dev"
	denied := errors.New("ValidatingAdmissionPolicy '" + fence + "' denied request")
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"the fence":             {byPolicy(http.StatusForbidden, fence, "Pod a does not hold the Lease"), true},
		"a misconfigured fence": {byPolicy(http.StatusUnprocessableEntity, fence, "failed to configure binding"), true},
		"another prefix, wrapped": {
			fmt.Errorf("writing: %w", byPolicy(http.StatusForbidden, "team-fence.leasehold.dev", "no")), true},
		"a webhook, by the fence's words": {withCause(byWebhook(http.StatusForbidden,
			`admission webhook "w" denied the request: no`), denied.Error()), false},
		"another policy":          {byPolicy(http.StatusForbidden, "limits.example.com", denied.Error()), false},
		"RBAC, by the same words": {forbidden(denied.Error()), false},
		"a response without details": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden,
			Message: denied.Error()}}, false},
		"no response": {denied, false},
		"nothing":     {nil, false},
	} {
		if got := Of(tc.err) == Fenced; got != tc.want {
			t.Errorf("denied by %s: Of(%v) is Fenced: %t, want %t", name, tc.err, got, tc.want)
		}
	}
}
