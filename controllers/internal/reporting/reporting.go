// SPDX-License-Identifier: Apache-2.0

// Package reporting contains what controllers use to report to users: conditions, events and metrics.
package reporting

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"leasehold.dev/api/v1beta1"
)

// SetCondition sets c, observed at the given generation, in the list. It sets the time of the last
// transition to now if the status of the condition changes.
func SetCondition(list *[]metav1.Condition, generation int64, now time.Time, c metav1.Condition) {
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(list, c)
}

// FindCondition returns the condition of a type, or the zero Condition if there is none.
func FindCondition(list []metav1.Condition, conditionType string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(list, conditionType), metav1.Condition{})
}

// stalled has the reasons of Ready that no retry resolves, but a person.
var stalled = sets.New(
	v1beta1.ReasonInvalidSpec, v1beta1.ReasonChildConflict, v1beta1.ReasonRBACForbidden, v1beta1.ReasonNamespaceConflict,
	v1beta1.ReasonAdminRoleNotFound, v1beta1.ReasonRolloutStalled, v1beta1.ReasonInvalidCredentials,
	v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonEndpointForbidden, v1beta1.ReasonBucketConflict,
	v1beta1.ReasonTagsNotSupported)

// IsStalled reports whether no retry resolves a reason of Ready, but a person.
func IsStalled(reason string) bool { return stalled.Has(reason) }

// SetReady sets the condition Ready, and Stalled with the same reason if Ready is False and no retry helps. An
// object that is reconciled is not paused.
func SetReady(list *[]metav1.Condition, generation int64, now time.Time, ready metav1.Condition) {
	ready.Type, ready.Message = v1beta1.ConditionReady, Bounded(ready.Message)
	SetCondition(list, generation, now, ready)
	meta.RemoveStatusCondition(list, v1beta1.ConditionPaused)
	if ready.Status != metav1.ConditionFalse || !IsStalled(ready.Reason) {
		meta.RemoveStatusCondition(list, v1beta1.ConditionStalled)
		return
	}
	ready.Type, ready.Status = v1beta1.ConditionStalled, metav1.ConditionTrue
	SetCondition(list, generation, now, ready)
}

// SetPaused sets the condition Paused. what says what the operator does not do meanwhile.
func SetPaused(list *[]metav1.Condition, generation int64, now time.Time, what string) {
	SetCondition(list, generation, now, metav1.Condition{
		Type: v1beta1.ConditionPaused, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonPaused,
		Message: fmt.Sprintf("%s while the annotation %s exists with any value except %q; to resume, remove the annotation",
			what, v1beta1.AnnotationPaused, "false"),
	})
}

// Corrected returns the event about fields of a child that the operator has put back. Each field is
// named with what it was and what it is now.
func Corrected(child string, fields []string) PendingEvent {
	return Normal(v1beta1.EventDriftCorrected, "Correct", "%s",
		Bounded("corrected "+child+": "+strings.Join(fields, "; ")))
}

// SetCorrected sets the condition DriftCorrected to what these events say about corrections. Without one
// the condition of the same generation stays: the next reconcile finds the child correct.
func SetCorrected(list *[]metav1.Condition, generation int64, now time.Time, pending []PendingEvent) {
	var messages []string
	for _, e := range pending {
		if e.Reason == v1beta1.EventDriftCorrected || e.Reason == v1beta1.EventAdminBindingRepaired {
			messages = append(messages, e.Message)
		}
	}
	if len(messages) > 0 {
		SetCondition(list, generation, now, metav1.Condition{
			Type: v1beta1.ConditionDriftCorrected, Status: metav1.ConditionTrue,
			Reason: v1beta1.ReasonDriftCorrected, Message: Bounded(strings.Join(messages, "; "))})
	} else if FindCondition(*list, v1beta1.ConditionDriftCorrected).ObservedGeneration != generation {
		meta.RemoveStatusCondition(list, v1beta1.ConditionDriftCorrected)
	}
}

// Bounded truncates a message to the length that conditions and events allow.
func Bounded(message string) string {
	const maxLength = 900
	if len(message) <= maxLength {
		return message
	}
	return strings.ToValidUTF8(message[:maxLength], "") + " ..."
}

// PendingEvent is an event that a reconcile has decided on and records after its last
// write. The recorder counts events of the same type, reason, action, object and related
// object as one and keeps the first message, so two events must differ in one of these.
type PendingEvent struct {
	Type, Reason, Action, Message string
	// Related is the second object of the event, nil if there is none.
	Related runtime.Object
}

// Normal returns a PendingEvent of type Normal.
func Normal(reason, action, format string, args ...any) PendingEvent {
	return PendingEvent{Type: corev1.EventTypeNormal, Reason: reason, Action: action,
		Message: fmt.Sprintf(format, args...)}
}

// Warning returns a PendingEvent of type Warning.
func Warning(reason, action, format string, args ...any) PendingEvent {
	return PendingEvent{Type: corev1.EventTypeWarning, Reason: reason, Action: action,
		Message: fmt.Sprintf(format, args...)}
}

// About returns the event with another related object.
func (e PendingEvent) About(related runtime.Object) PendingEvent {
	e.Related = related
	return e
}

// Flush records pending events regarding one object.
func Flush(recorder events.EventRecorder, regarding runtime.Object, pending []PendingEvent) {
	for _, e := range pending {
		recorder.Eventf(regarding, e.Related, e.Type, e.Reason, e.Action, "%s", e.Message)
	}
}

// RegisterMetric registers c and returns it. If another controller of the process has
// registered an equal collector, it returns that one, to be shared. It panics if c is invalid, or
// if another metric has the same name and other labels.
func RegisterMetric[C prometheus.Collector](registry prometheus.Registerer, c C) C {
	err := registry.Register(c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return already.ExistingCollector.(C)
	}
	utilruntime.Must(err)
	return c
}

// LogOfReview returns the logger of a webhook for a review, and one that discards all lines for a
// request that is none. Any client can send such requests, and their lines would displace all
// other lines. Each response has the error.
func LogOfReview(base logr.Logger, review *admission.Request) logr.Logger {
	if review == nil {
		return logr.Discard()
	}
	return admission.DefaultLogConstructor(base, review)
}
