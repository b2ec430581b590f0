package markdownview

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// An apply leaves in a map or a list what others have put there. Of the maps and
// lists that we fill, that may be shown by the viewer, run beside it, or have the
// apply refused (a second port of the same name). The functions here return the
// child without it, and nil where there is nothing of the kind.

// bareConfigMap is the ConfigMap without keys of others. Keys that are ours and
// not wanted any more are the apply's to drop.
func bareConfigMap(live *corev1.ConfigMap, owned, want *corev1ac.ConfigMapApplyConfiguration) *corev1.ConfigMap {
	bare := live.DeepCopy()
	for key := range live.Data {
		_, isOwned := owned.Data[key]
		_, isWanted := want.Data[key]
		if !isOwned && !isWanted {
			delete(bare.Data, key)
		}
	}
	bare.BinaryData = nil
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
	pod, wanted := &bare.Spec.Template.Spec, want.Spec.Template.Spec
	viewer := wanted.Containers[0]
	pruned := false
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if c.Name != *viewer.Name {
			continue
		}
		pruned = keepOnly(&c.Ports, viewer.Ports, func(p corev1.ContainerPort, w corev1ac.ContainerPortApplyConfiguration) bool {
			return p.ContainerPort == *w.ContainerPort && p.Protocol == *w.Protocol
		})
		if !differs {
			pruned = keepOnly(&c.VolumeMounts, viewer.VolumeMounts, func(m corev1.VolumeMount, w corev1ac.VolumeMountApplyConfiguration) bool {
				return m.MountPath == *w.MountPath
			}) || pruned
		}
	}
	if !differs {
		pruned = keepOnly(&pod.Containers, wanted.Containers, func(c corev1.Container, w corev1ac.ContainerApplyConfiguration) bool {
			return c.Name == *w.Name
		}) || pruned
		pruned = keepOnly(&pod.Volumes, wanted.Volumes, func(v corev1.Volume, w corev1ac.VolumeApplyConfiguration) bool {
			return v.Name == *w.Name
		}) || pruned
	}
	if !pruned {
		return nil
	}
	return bare
}

// bareService is the Service without ports of others. There has to be one: it is
// ours.
func bareService(live *corev1.Service, want *corev1ac.ServiceApplyConfiguration) *corev1.Service {
	bare, ours := live.DeepCopy(), want.Spec.Ports[0]
	if !keepOnly(&bare.Spec.Ports, want.Spec.Ports, func(p corev1.ServicePort, w corev1ac.ServicePortApplyConfiguration) bool {
		return p.Port == *w.Port && p.Protocol == *w.Protocol
	}) {
		return nil
	}
	if len(bare.Spec.Ports) == 0 {
		bare.Spec.Ports = []corev1.ServicePort{{Name: *ours.Name, Protocol: *ours.Protocol, Port: *ours.Port, TargetPort: *ours.TargetPort}}
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
