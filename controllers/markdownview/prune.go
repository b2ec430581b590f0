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

// An apply leaves in a map or a list what others have put there. Of the maps and
// lists that we fill, that may be shown by the viewer, run beside it, or have the
// apply refused (a second port of the same name). The functions here return the
// child without it, and nil where there is nothing of the kind.

// bareConfigMap is the ConfigMap without keys of others. Keys that are ours and
// not wanted any more are the apply's to drop.
func bareConfigMap(live *corev1.ConfigMap, ours ...map[string]string) *corev1.ConfigMap {
	isForeign := func(key, _ string) bool {
		return !slices.ContainsFunc(ours, func(data map[string]string) bool { _, found := data[key]; return found })
	}
	bare := &corev1.ConfigMap{
		TypeMeta: live.TypeMeta, ObjectMeta: *live.ObjectMeta.DeepCopy(), Immutable: live.Immutable, Data: maps.Clone(live.Data)}
	maps.DeleteFunc(bare.Data, isForeign)
	if len(bare.Data) == len(live.Data) && len(live.BinaryData) == 0 {
		return nil
	}
	return bare
}

// bareDeployment is the Deployment without containers, volumes, ports and mounts
// of others. What refers to each other is left until our own fields are right, or
// the patch might be refused; ports are what an apply might be refused for.
func bareDeployment(live *appsv1.Deployment, want *appsv1ac.DeploymentApplyConfiguration, differs bool) *appsv1.Deployment {
	bare := live.DeepCopy()
	pod, wanted := &bare.Spec.Template.Spec, podOf(want)
	pruned := false
	for i := range pod.Containers {
		c := &pod.Containers[i]
		at := slices.IndexFunc(wanted.Containers, func(w corev1ac.ContainerApplyConfiguration) bool { return ptr.Deref(w.Name, "") == c.Name })
		if at < 0 {
			continue
		}
		viewer := wanted.Containers[at]
		pruned = keepOnly(&c.Ports, viewer.Ports, func(p corev1.ContainerPort, w corev1ac.ContainerPortApplyConfiguration) bool {
			return p.ContainerPort == ptr.Deref(w.ContainerPort, 0) && p.Protocol == ptr.Deref(w.Protocol, "")
		})
		if !differs {
			pruned = keepOnly(&c.VolumeMounts, viewer.VolumeMounts, func(m corev1.VolumeMount, w corev1ac.VolumeMountApplyConfiguration) bool {
				return m.MountPath == ptr.Deref(w.MountPath, "")
			}) || pruned
		}
	}
	if !differs {
		pruned = keepOnly(&pod.Containers, wanted.Containers, func(c corev1.Container, w corev1ac.ContainerApplyConfiguration) bool {
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

// podOf is the Pod that a configuration asks for. What was extracted from a Deployment of
// which others have taken all fields asks for none.
func podOf(want *appsv1ac.DeploymentApplyConfiguration) corev1ac.PodSpecApplyConfiguration {
	if want.Spec == nil || want.Spec.Template == nil || want.Spec.Template.Spec == nil {
		return corev1ac.PodSpecApplyConfiguration{}
	}
	return *want.Spec.Template.Spec
}

// bareService is the Service without ports of others. There has to be one: it is
// ours.
func bareService(live *corev1.Service, want *corev1ac.ServiceApplyConfiguration) *corev1.Service {
	bare, ports := live.DeepCopy(), []corev1ac.ServicePortApplyConfiguration(nil)
	if want.Spec != nil {
		ports = want.Spec.Ports
	}
	if !keepOnly(&bare.Spec.Ports, ports, func(p corev1.ServicePort, w corev1ac.ServicePortApplyConfiguration) bool {
		return p.Port == ptr.Deref(w.Port, 0) && p.Protocol == ptr.Deref(w.Protocol, "")
	}) {
		return nil
	}
	if len(bare.Spec.Ports) == 0 && len(ports) > 0 {
		ours := ports[0]
		bare.Spec.Ports = []corev1.ServicePort{{Name: ptr.Deref(ours.Name, ""), Protocol: ptr.Deref(ours.Protocol, ""),
			Port: ptr.Deref(ours.Port, 0), TargetPort: ptr.Deref(ours.TargetPort, intstr.IntOrString{})}}
	}
	return bare
}

// keepOnly drops from a list what is none of those wanted, and reports whether
// there was any.
func keepOnly[E, W any](list *[]E, wanted []W, same func(E, W) bool) bool {
	before := len(*list)
	*list = slices.DeleteFunc(*list, func(e E) bool {
		return !slices.ContainsFunc(wanted, func(w W) bool { return same(e, w) })
	})
	return len(*list) != before
}
