// SPDX-License-Identifier: Apache-2.0

// Package denial classifies requests that the API server denied for a reason that a retry does not
// resolve: a missing permission, an admission policy or webhook, or an exceeded quota.
//
// All of them can have the code 403, and a policy or webhook chooses its own code and reason. So the
// causes of the response decide, which the API server adds for policies, and the beginning of the message.
package denial

import (
	"errors"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

// Kind is the cause of a denied request.
type Kind int

const (
	// None means that the error is no denial.
	None Kind = iota
	// RBAC is the authorizer.
	RBAC
	// Grant is the escalation check of role bindings: without the verb bind, a binding must not
	// grant more rights than its writer has.
	Grant
	// Policy is a ValidatingAdmissionPolicy or a MutatingAdmissionPolicy.
	Policy
	// Webhook is an admission webhook.
	Webhook
	// Quota is a ResourceQuota that is exceeded, or that does not allow such a request.
	Quota
	// Admission is an admission plugin of the API server.
	Admission
)

// Denial describes a denied request.
type Denial struct {
	Kind Kind
	// By is the name of the policy, webhook or quota; "" if there is none.
	By string
}

// The patterns are anchored, because the rest of a message can repeat parts of the request.
var (
	policyText  = regexp.MustCompile(`^(?:ValidatingAdmissionPolicy|policy) ['"]([^'"]+)['"] .*denied request`)
	webhookText = regexp.MustCompile(`^admission webhook "([^"]+)" (?:denied the request|does not support dry run)`)
	quotaText   = regexp.MustCompile(`^(?:exceeded quota|failed quota|status unknown for quota): ([^:,]+)`)
	scarceText  = regexp.MustCompile(`^insufficient quota to `)
	grantText   = regexp.MustCompile(`^user "[^"]*" \(groups=.*\) is attempting to grant RBAC permissions `)
	rbacText    = regexp.MustCompile(`^(?:User "[^"]*" cannot |` +
		`cannot set (?:an ownerRef on a resource you can't delete|blockOwnerDeletion if ))`)
)

// Of returns the Denial of err.
func Of(err error) Denial {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return Denial{}
	}
	answer := status.Status()
	// A webhook chooses its causes, and not how its message begins.
	if m := webhookText.FindStringSubmatch(answer.Message); m != nil {
		return Denial{Webhook, m[1]}
	}
	if name, ok := policyOf(answer.Details); ok {
		return Denial{Policy, name}
	}
	if !apierrors.IsForbidden(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return Denial{}
	}
	text := answer.Message
	if _, rest, ok := strings.Cut(text, " is forbidden: "); ok {
		text = rest
	}
	switch m := quotaText.FindStringSubmatch(text); {
	case m != nil:
		return Denial{Quota, m[1]}
	case scarceText.MatchString(text):
		return Denial{Kind: Quota}
	case grantText.MatchString(text):
		return Denial{Kind: Grant}
	case rbacText.MatchString(text):
		return Denial{Kind: RBAC}
	default:
		return Denial{Kind: Admission}
	}
}

// Reason returns the condition reason for the denial, "" if it is none.
func (d Denial) Reason() string {
	switch d.Kind {
	case RBAC, Grant:
		return v1beta1.ReasonRBACForbidden
	case Policy, Webhook, Admission:
		return v1beta1.ReasonAdmissionDenied
	case Quota:
		return v1beta1.ReasonQuotaExceeded
	default:
		return ""
	}
}

// policyOf returns the name of the policy in the causes of a response. Other than by a webhook, only
// the API server writes causes of this form: for the two kinds of policies in two ways.
func policyOf(details *metav1.StatusDetails) (string, bool) {
	if details == nil {
		return "", false
	}
	for _, cause := range details.Causes {
		if m := policyText.FindStringSubmatch(cause.Message); m != nil {
			return m[1], true
		}
	}
	return "", false
}

// fencePolicy is the suffix of the name of the policy in config/fencing; the prefix may differ.
const fencePolicy = "fence.leasehold.dev"

// ByFence reports whether the fence denied a request. The fence allows writes only by the Pod that
// holds the election Lease. It denies them if another replica leads, and until the API server has
// observed that this one does.
func ByFence(err error) bool {
	d := Of(err)
	return d.Kind == Policy && strings.HasSuffix(d.By, fencePolicy)
}
