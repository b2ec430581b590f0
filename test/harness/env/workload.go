// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// options describe the n-th Pod of the Deployment.
func (i *Installation) options(n int) ReplicaOptions {
	return ReplicaOptions{
		Name:       fmt.Sprintf("%s-%d", i.shipped.Name, n),
		Namespace:  i.shipped.Namespace,
		Template:   *i.shipped.Spec.Template.DeepCopy(),
		Binary:     i.program.Binary,
		WorkingDir: i.program.WorkingDir,
		Env:        slices.Clip(i.program.Env), // what is appended is one replica's
		Connect:    i.program.Connect,
		Isolated:   i.program.Isolated && CheckIsolation() == nil,
		Args: func(p ReplicaPorts) []string {
			args := ProgramArgs(i.shipped.Spec.Template.Spec.Containers[0])
			if i.program.Args == nil {
				return args
			}
			return slices.Concat(args, i.program.Args(p))
		},
	}
}

func selects(s *corev1.Service, d appsv1.Deployment) bool {
	return len(s.Spec.Selector) > 0 && s.Namespace == d.Namespace &&
		labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels))
}

// targetPort is the port of a Pod that a port of a Service leads to. A name that no port of the
// container has is an error here as in a cluster.
func (i *Installation) targetPort(s *corev1.Service, p corev1.ServicePort) (int, error) {
	if p.TargetPort.Type == intstr.Int {
		if p.TargetPort.IntVal == 0 {
			return int(p.Port), nil // as the API server would
		}
		return int(p.TargetPort.IntVal), nil
	}
	container := i.shipped.Spec.Template.Spec.Containers[0]
	for _, c := range container.Ports {
		if c.Name == p.TargetPort.StrVal {
			return int(c.ContainerPort), nil
		}
	}
	return 0, fmt.Errorf("routing to Service %s: its target is port %q, and container %s has no port of this name",
		client.ObjectKeyFromObject(s), p.TargetPort.StrVal, container.Name)
}
