// SPDX-License-Identifier: Apache-2.0

package election

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Each rule has a row that satisfies it and similar rows that do not.
func TestEndOf(t *testing.T) {
	started := time.Date(2030, 1, 1, 0, 0, 10, 500_000_000, time.UTC)
	at := func(second int) metav1.Time { return metav1.NewTime(time.Date(2030, 1, 1, 0, 0, second, 0, time.UTC)) }
	running := func(second int) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(second)}}
	}
	ended := func(second int) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, StartedAt: at(10),
			FinishedAt: at(second)}}
	}
	before := func(from, to int) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, StartedAt: at(from),
			FinishedAt: at(to)}}
	}
	backOff := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	states := func(now, last corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State, p.Status.ContainerStatuses[0].LastTerminationState = now, last
		}
	}
	phase := func(phase corev1.PodPhase, now corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase, p.Status.ContainerStatuses[0].State = phase, now
		}
	}
	none := corev1.ContainerState{}
	const terminatedText = "container manager of Pod first terminated at 2030-01-01T00:00:11Z with exit code 1"
	for name, tc := range map[string]struct {
		change    func(*corev1.Pod)
		container string
		renewed   time.Duration // after the start
		want      string
	}{
		"Runs":                   {func(*corev1.Pod) {}, "manager", 0, ""},
		"Terminated":             {states(ended(11), none), "manager", 0, terminatedText},
		"TerminatedBefore":       {states(before(3, 9), none), "manager", 0, ""},
		"TerminatedInTheSecond":  {states(ended(10), none), "manager", 0, ""},
		"TerminatedThenRenewed":  {states(ended(11), none), "manager", 2 * time.Second, ""},
		"TerminatedAfterRenewal": {states(ended(11), none), "manager", time.Second, terminatedText},
		"Waits":                  {states(backOff, ended(11)), "manager", 0, terminatedText},
		"WaitsSinceBefore":       {states(backOff, before(3, 9)), "manager", 0, ""},
		"WaitsForTheFirstTime":   {states(backOff, none), "manager", 0, ""},
		"Restarted": {states(running(12), ended(11)), "manager", 0,
			"container manager of Pod first was restarted at 2030-01-01T00:00:12Z"},
		"RestartedByAnotherClock": {states(running(9), ended(11)), "manager", 0,
			"container manager of Pod first was restarted at 2030-01-01T00:00:09Z"},
		"RestartedBefore":       {states(running(10), before(3, 9)), "manager", 0, ""},
		"RestartedThenRenewed":  {states(running(12), ended(11)), "manager", 2 * time.Second, ""},
		"ClockSetBackAfterIt":   {states(running(310), none), "manager", 0, ""},
		"ClockSetBackBetween":   {states(running(310), before(300, 309)), "manager", 0, ""},
		"ClockSetBackWhileLate": {states(before(300, 309), none), "manager", 0, ""},
		"AnotherContainer":      {states(ended(11), none), "sidecar", 0, ""},
		"OnlyContainer":         {states(ended(11), none), "", 0, terminatedText},
		"OneOfTwoContainers": {func(p *corev1.Pod) {
			states(ended(11), none)(p)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
		}, "", 0, ""},
		"AnotherUID":        {func(p *corev1.Pod) { states(ended(11), none)(p); p.UID = "another" }, "manager", 0, ""},
		"AnotherName":       {func(p *corev1.Pod) { states(ended(11), none)(p); p.Name = "another" }, "manager", 0, ""},
		"Failed":            {phase(corev1.PodFailed, none), "manager", 0, "Pod first has phase Failed"},
		"Succeeded":         {phase(corev1.PodSucceeded, ended(9)), "manager", 0, "Pod first has phase Succeeded"},
		"FailedWhileItRuns": {phase(corev1.PodFailed, running(9)), "manager", 0, ""},
		"FailedByPodGC": {func(p *corev1.Pod) {
			phase(corev1.PodFailed, backOff)(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: "DeletionByPodGC"}}
		}, "manager", 0, ""},
		"FailedAfterPodGCLetItBe": {func(p *corev1.Pod) {
			phase(corev1.PodFailed, none)(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse,
				Reason: "DeletionByPodGC"}}
		}, "manager", 0, "Pod first has phase Failed"},
		"FailedWithAnotherCondition": {func(p *corev1.Pod) {
			phase(corev1.PodFailed, none)(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
				Reason: "DeletionByPodGC"}}
		}, "manager", 0, "Pod first has phase Failed"},
		"Evicted": {func(p *corev1.Pod) {
			phase(corev1.PodFailed, none)(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: "TerminationByKubelet"}}
		}, "manager", 0, "Pod first has phase Failed"},
		"Unknown": {phase(corev1.PodUnknown, running(9)), "manager", 0, ""},
		"NodeNotReady": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse,
				Reason: "NodeNotReady"}}
		}, "manager", 0, ""},
		"Terminating": {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(at(11)) }, "manager", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf("first")
			pod.Spec.Containers = []corev1.Container{{Name: "manager"}}
			pod.Status.ContainerStatuses[0].State = running(9)
			tc.change(pod)
			h := holder{pod: "first", uid: "first-uid", started: started, renewed: started.Add(tc.renewed)}
			if got := endOf(pod, h, tc.container); got != tc.want {
				t.Errorf("endOf() = %q, want %q", got, tc.want)
			}
		})
	}
	if got := endOf(nil, holder{}, "manager"); got != "" {
		t.Errorf("endOf() = %q for an unobserved Pod", got)
	}
	within := podOf("first")
	states(ended(10), none)(within)
	begin := started.Truncate(time.Second)
	if got := endOf(within, holder{pod: "first", uid: "first-uid", started: begin, renewed: begin},
		"manager"); got != "" {
		t.Errorf("endOf() = %q for a container that ended in the second of the start", got)
	}
	// An unknown start of the container is not before an unknown start of the holder.
	states(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(11)}}, none)(within)
	if got := endOf(within, holder{pod: "first", uid: "first-uid"}, "manager"); got != "" {
		t.Errorf("endOf() = %q for a holder whose start is unknown", got)
	}
}

// A Lease without this package's annotation names no Pod to watch.
func TestHolderOf(t *testing.T) {
	acquired := metav1.NowMicro()
	for name, tc := range map[string]struct {
		identity, annotation string
		named                bool
	}{
		"Named":        {"pod-0_uuid", "pod-0_uuid/uid", true},
		"Underscores":  {"a_b_uuid", "a_b_uuid/uid", true},
		"AnotherOne":   {"pod-0_uuid", "pod-0_other/uid", false},
		"NoUID":        {"pod-0_uuid", "pod-0_uuid/", false},
		"NoAnnotation": {"pod-0_uuid", "", false},
		"NoUUID":       {"pod-0", "pod-0/uid", false},
		"NoPod":        {"_uuid", "_uuid/uid", false},
		"NoHolder":     {"", "/uid", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &tc.identity, AcquireTime: &acquired}}
			if tc.annotation != "" {
				// Replicas of other versions read this annotation.
				l.Annotations = map[string]string{"leasehold.dev/holder-pod": tc.annotation}
			}
			h, named := holderOf(l)
			if named != tc.named || named && (h.uid != "uid" || !strings.HasPrefix(tc.identity, h.pod+"_")) {
				t.Errorf("holderOf() = %+v, %t", h, named)
			}
		})
	}
	// Another client may have removed the time.
	edited := version("1", "pod-0_uuid", 1)
	annotate(edited, "pod-0_uuid", "uid", acquired.Time)
	edited.Spec.AcquireTime = nil
	if h, named := holderOf(edited); named {
		t.Errorf("holderOf() = %+v for a Lease without an acquire time", h)
	}
}
