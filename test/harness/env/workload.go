package env

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workload is the Deployment of an Installation, with the program that its Pods run and the way to
// them.
type workload struct {
	cp      *ControlPlane
	shipped appsv1.Deployment
	program InstallOptions
	router  router
}

// options describe the n-th Pod of the Deployment.
func (w *workload) options(n int) ReplicaOptions {
	pod := w.shipped.Spec.Template
	name := fmt.Sprintf("%s-%d", w.shipped.Name, n)
	variables := w.variables()
	var isolation *Isolation
	if w.program.Isolated && CheckIsolation() == nil {
		isolation = isolationOf(pod)
	}
	return ReplicaOptions{
		Name:           name,
		Namespace:      w.shipped.Namespace,
		ServiceAccount: pod.Spec.ServiceAccountName,
		PodLabels:      pod.Labels,
		PodAnnotations: pod.Annotations,
		Binary:         w.program.Binary,
		Container:      pod.Spec.Containers[0].Name,
		PodEnv: func(ctx context.Context, uid types.UID) ([]string, error) {
			pod := types.NamespacedName{Namespace: w.shipped.Namespace, Name: name}
			return variables.values(ctx, w.cp.client, pod, uid)
		},
		Connect:   w.program.Connect,
		Isolation: isolation,
		Args: func(p ReplicaPorts) []string {
			if w.program.Args == nil {
				return pod.Spec.Containers[0].Args
			}
			return slices.Concat(pod.Spec.Containers[0].Args, w.program.Args(p))
		},
	}
}

func (w *workload) variables() containerVariables {
	pod := w.shipped.Spec.Template
	return containerVariables{
		template: pod, container: pod.Spec.Containers[0], namespace: w.shipped.Namespace, given: w.program.Env,
	}
}

func (w *workload) selects(s *corev1.Service) bool {
	return len(s.Spec.Selector) > 0 && s.Namespace == w.shipped.Namespace &&
		labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.shipped.Spec.Template.Labels))
}

// targetPort is the port of a Pod that a port of a Service leads to. A name that no port of the
// container has is an error here as in a cluster.
func (w *workload) targetPort(s *corev1.Service, p corev1.ServicePort) (int, error) {
	if p.TargetPort.Type == intstr.Int {
		if p.TargetPort.IntVal == 0 {
			return int(p.Port), nil // as the API server would
		}
		return int(p.TargetPort.IntVal), nil
	}
	container := w.shipped.Spec.Template.Spec.Containers[0]
	for _, c := range container.Ports {
		if c.Name == p.TargetPort.StrVal {
			return int(c.ContainerPort), nil
		}
	}
	return 0, fmt.Errorf("routing to Service %s: its target is port %q, and container %s has no port of this name",
		client.ObjectKeyFromObject(s), p.TargetPort.StrVal, container.Name)
}
