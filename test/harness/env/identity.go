// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// tokenLifetime outlives any run. The API server's least is 10 minutes.
const tokenLifetime = 24 * time.Hour

// defaultAccount is the ServiceAccount of Pods that name none. kube-controller-manager makes it in a
// new namespace, some time after it.
const defaultAccount = "default"

// accountIsMade is the time for that: 15 s.
var accountIsMade = wait.Backoff{Steps: 75, Duration: 200 * time.Millisecond}

// bindToken creates the Pod object of a replica and returns its UID with a
// token of its ServiceAccount that is bound to it.
func (c *ControlPlane) bindToken(ctx context.Context, o ReplicaOptions) (types.UID, string, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Labels: o.Template.Labels,
			Annotations: o.Template.Annotations},
		Spec: corev1.PodSpec{
			ServiceAccountName: o.Template.Spec.ServiceAccountName,
			// The gate prevents scheduling where there is a scheduler: the Pod's process runs here.
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "harness/runs-as-a-process"}},
			// As strict as a namespace may require, so every namespace admits it.
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: o.container().Name, Image: "process.invalid/none",
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	if err := c.client.Create(ctx, pod); err != nil {
		return "", "", fmt.Errorf("creating its Pod object: %w", err)
	}
	token, err := c.requestToken(ctx, o, pod.UID, "")
	return pod.UID, token, err
}

// requestToken returns a token of a replica's ServiceAccount that is bound to its Pod. An empty
// audience is the API server.
func (c *ControlPlane) requestToken(ctx context.Context, o ReplicaOptions, pod types.UID,
	audience string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: new(int64(tokenLifetime.Seconds())),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: o.Name, UID: pod},
	}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	name := o.Template.Spec.ServiceAccountName
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name}}
	notYet := func(err error) bool { return name == defaultAccount && apierrors.IsNotFound(err) }
	if err := retry.OnError(accountIsMade, notYet, func() error {
		return c.client.SubResource("token").Create(ctx, account, request)
	}); err != nil {
		return "", fmt.Errorf("requesting a token of ServiceAccount %s: %w", name, err)
	}
	return request.Status.Token, nil
}
