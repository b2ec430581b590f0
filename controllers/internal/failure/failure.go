// SPDX-License-Identifier: Apache-2.0

// Package failure says in one table what each kind of error means for a reconcile: which reason a condition
// gets, whether the status says anything of it, and whether the queue retries it.
//
// A denied request can have the code 403, and a policy or webhook chooses its own code and reason. So the
// causes of the response decide, which the API server adds for policies, and the beginning of the message.
package failure

import (
	"context"
	"errors"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1beta1"
)

// Kind is the cause of an error. Kinds are compared by identity.
type Kind struct {
	// Reason is that of conditions, "" if there is no error.
	Reason string
	// IsSilent errors are no failure of the object: its status does not report them.
	IsSilent bool
	// IsWatched errors end by a change that the operator watches, so the queue does not retry them.
	IsWatched bool
	// IsDenial means that the API server denied a request for a reason that a retry does not resolve.
	IsDenial bool
}

var (
	// None means that there is no error.
	None = &Kind{IsSilent: true}
	// Other is any error that has no kind of its own.
	Other = &Kind{Reason: v1beta1.ReasonReconcileFailed}
	// Changed is a Conflict: an object has changed since it was read.
	Changed = &Kind{Reason: v1beta1.ReasonReconcileFailed, IsSilent: true}
	// Fenced is a denial by the fence. The fence allows writes only by the Pod that holds the election Lease. It
	// denies them if another replica leads, and until the API server has observed that this one does.
	Fenced = &Kind{Reason: v1beta1.ReasonReconcileFailed, IsSilent: true}
	// Canceled is the end of a request because the operator stops.
	Canceled = &Kind{Reason: v1beta1.ReasonReconcileFailed, IsSilent: true}
	// Terminating is a creation in a namespace that is being deleted.
	Terminating = &Kind{Reason: v1beta1.ReasonNamespaceTerminating, IsWatched: true}
	// Foreign is an object under the name of a child that has another owner.
	Foreign = &Kind{Reason: v1beta1.ReasonChildConflict, IsWatched: true}
	// Unstorable is an object that the API server cannot store: it is invalid or too large, or etcd fails.
	Unstorable = &Kind{Reason: v1beta1.ReasonReconcileFailed}
	// RBAC is a denial by the authorizer.
	RBAC = &Kind{Reason: v1beta1.ReasonRBACForbidden, IsDenial: true}
	// Grant is a denial by the escalation check of role bindings: without the verb bind, a binding must not
	// grant more rights than its writer has.
	Grant = &Kind{Reason: v1beta1.ReasonRBACForbidden, IsDenial: true}
	// Quota is a denial by a ResourceQuota that is exceeded, or that does not allow such a request.
	Quota = &Kind{Reason: v1beta1.ReasonQuotaExceeded, IsDenial: true}
	// Admission is a denial by a webhook, a policy or an admission plugin of the API server.
	Admission = &Kind{Reason: v1beta1.ReasonAdmissionDenied, IsDenial: true}
)

// kindError is an error that a controller has found itself.
type kindError struct {
	kind *Kind
	text string
}

func (e *kindError) Error() string { return e.text }

// New returns an error of a kind.
func New(kind *Kind, text string) error { return &kindError{kind, text} }

// The patterns are anchored, because the rest of a message can repeat parts of the request.
var (
	policyText  = regexp.MustCompile(`^(?:ValidatingAdmissionPolicy|policy) ['"]([^'"]+)['"] .*denied request`)
	webhookText = regexp.MustCompile(`^admission webhook "([^"]+)" (?:denied the request|does not support dry run)`)
	quotaText   = regexp.MustCompile(`^(?:(?:exceeded quota|failed quota|status unknown for quota): |` +
		`insufficient quota to )`)
	grantText = regexp.MustCompile(`^user "[^"]*" \(groups=.*\) is attempting to grant RBAC permissions `)
	rbacText  = regexp.MustCompile(`^(?:User "[^"]*" cannot |` +
		`cannot set (?:an ownerRef on a resource you can't delete|blockOwnerDeletion if ))`)
)

// Of returns the kind of err. What a controller has found itself counts unless the joined error of a request
// is none to report.
func Of(err error) *Kind {
	kind := Other
	var status apierrors.APIStatus
	switch {
	case err == nil:
		kind = None
	case errors.As(err, &status):
		kind = ofAnswer(err, status.Status())
	case errors.Is(err, context.Canceled):
		kind = Canceled
	}
	if own, ok := errors.AsType[*kindError](err); ok && !kind.IsSilent {
		return own.kind
	}
	return kind
}

// ofAnswer returns the kind of a response of the API server.
func ofAnswer(err error, answer metav1.Status) *Kind {
	// A webhook chooses its causes, and not how its message begins.
	if webhookText.MatchString(answer.Message) {
		return Admission
	}
	policy := policyOf(answer.Details)
	switch {
	// The suffix of the name of the policy in config/fencing; the prefix may differ.
	case strings.HasSuffix(policy, "fence.leasehold.dev"):
		return Fenced
	case policy != "":
		return Admission
	case apierrors.IsConflict(err):
		return Changed
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Terminating
	case apierrors.IsForbidden(err):
		return ofForbidden(answer.Message)
	case apierrors.IsInvalid(err), apierrors.IsInternalError(err), apierrors.IsRequestEntityTooLargeError(err):
		return Unstorable
	}
	return Other
}

// ofForbidden returns the kind of a 403 that no policy or webhook has sent, by its message.
func ofForbidden(text string) *Kind {
	if _, rest, ok := strings.Cut(text, " is forbidden: "); ok {
		text = rest
	}
	switch {
	case quotaText.MatchString(text):
		return Quota
	case grantText.MatchString(text):
		return Grant
	case rbacText.MatchString(text):
		return RBAC
	}
	return Admission
}

// policyOf returns the name of the policy in the causes of a response, or "". Other than by a webhook, only
// the API server writes causes of this form: for the two kinds of policies in two ways.
func policyOf(details *metav1.StatusDetails) string {
	for _, cause := range ptr.Deref(details, metav1.StatusDetails{}).Causes {
		if m := policyText.FindStringSubmatch(cause.Message); m != nil {
			return m[1]
		}
	}
	return ""
}
