package markdownview

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
)

// An apply keeps the entries of other field managers in a map or a list. A foreign entry in the
// maps and lists that this operator fills may be shown by the viewer, run beside it, or cause the
// API server to reject the apply (a second port of the same name). The functions here return the
// child without foreign entries, or nil if it has none.

// prunedConfigMap returns the ConfigMap without foreign keys. The operator's own keys that are not
// desired any more are removed by the apply.
func prunedConfigMap(live *corev1.ConfigMap, ours ...map[string]string) *corev1.ConfigMap {
	isForeign := func(key, _ string) bool {
		return !slices.ContainsFunc(ours, func(data map[string]string) bool { _, found := data[key]; return found })
	}
	pruned := &corev1.ConfigMap{
		TypeMeta: live.TypeMeta, ObjectMeta: *live.ObjectMeta.DeepCopy(), Immutable: live.Immutable,
		Data: maps.Clone(live.Data)}
	maps.DeleteFunc(pruned.Data, isForeign)
	if len(pruned.Data) == len(live.Data) && len(live.BinaryData) == 0 {
		return nil
	}
	return pruned
}

// prunedDeployment returns the Deployment without foreign containers, volumes, ports and mounts.
// Ports are removed first, because a foreign port can make the API server reject the apply.
// Containers, volumes and mounts refer to each other, so they are removed only when the applied
// fields are correct; before, the API server might reject the patch.
func prunedDeployment(live *appsv1.Deployment, want *appsv1ac.DeploymentApplyConfiguration,
	differs bool) *appsv1.Deployment {
	bare := live.DeepCopy()
	pod, wanted := &bare.Spec.Template.Spec, podOf(want)
	pruned := false
	for i := range pod.Containers {
		c := &pod.Containers[i]
		at := slices.IndexFunc(wanted.Containers,
			func(w corev1ac.ContainerApplyConfiguration) bool { return ptr.Deref(w.Name, "") == c.Name })
		if at < 0 {
			continue
		}
		viewer := wanted.Containers[at]
		pruned = keepOnly(&c.Ports, viewer.Ports,
			func(p corev1.ContainerPort, w corev1ac.ContainerPortApplyConfiguration) bool {
				return p.ContainerPort == ptr.Deref(w.ContainerPort, 0) && p.Protocol == ptr.Deref(w.Protocol, "")
			})
		if !differs {
			pruned = keepOnly(&c.VolumeMounts, viewer.VolumeMounts,
				func(m corev1.VolumeMount, w corev1ac.VolumeMountApplyConfiguration) bool {
					return m.MountPath == ptr.Deref(w.MountPath, "")
				}) || pruned
		}
	}
	if !differs {
		pruned = keepOnly(&pod.Containers, wanted.Containers,
			func(c corev1.Container, w corev1ac.ContainerApplyConfiguration) bool {
				return c.Name == ptr.Deref(w.Name, "")
			}) || pruned
		pruned = keepOnly(&pod.Volumes, wanted.Volumes, func(v corev1.Volume, w corev1ac.VolumeApplyConfiguration) bool {
			return v.Name == ptr.Deref(w.Name, "")
		}) || pruned
	}
	if !pruned {
		return nil
	}
	return bare
}

// podOf returns the Pod spec of an apply configuration. It is empty for a configuration extracted
// from a Deployment of which other managers own all fields.
func podOf(want *appsv1ac.DeploymentApplyConfiguration) corev1ac.PodSpecApplyConfiguration {
	if want.Spec == nil || want.Spec.Template == nil || want.Spec.Template.Spec == nil {
		return corev1ac.PodSpecApplyConfiguration{}
	}
	return *want.Spec.Template.Spec
}

// prunedService returns the Service without foreign ports. A Service must have a port, so it gets
// the desired one.
func prunedService(live *corev1.Service, want *corev1ac.ServiceApplyConfiguration) *corev1.Service {
	pruned, ports := live.DeepCopy(), []corev1ac.ServicePortApplyConfiguration(nil)
	if want.Spec != nil {
		ports = want.Spec.Ports
	}
	if !keepOnly(&pruned.Spec.Ports, ports, func(p corev1.ServicePort, w corev1ac.ServicePortApplyConfiguration) bool {
		return p.Port == ptr.Deref(w.Port, 0) && p.Protocol == ptr.Deref(w.Protocol, "")
	}) {
		return nil
	}
	if len(pruned.Spec.Ports) == 0 && len(ports) > 0 {
		ours := ports[0]
		pruned.Spec.Ports = []corev1.ServicePort{{Name: ptr.Deref(ours.Name, ""), Protocol: ptr.Deref(ours.Protocol, ""),
			Port: ptr.Deref(ours.Port, 0), TargetPort: ptr.Deref(ours.TargetPort, intstr.IntOrString{})}}
	}
	return pruned
}

// keepOnly removes the elements of a list that are not wanted, and reports whether there were any.
func keepOnly[E, W any](list *[]E, wanted []W, same func(E, W) bool) bool {
	before := len(*list)
	*list = slices.DeleteFunc(*list, func(e E) bool {
		return !slices.ContainsFunc(wanted, func(w W) bool { return same(e, w) })
	})
	return len(*list) != before
}
