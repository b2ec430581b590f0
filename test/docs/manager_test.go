// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// mirror gives each ConfigMap with the label mirror a Secret with the same content, which it owns.
type mirror struct{ client.Client }

func (m *mirror) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	source := &corev1.ConfigMap{}
	if err := m.Get(ctx, request.NamespacedName, source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, wanted := source.Labels["mirror"]; !wanted || !source.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: source.Name}}
	_, err := controllerutil.CreateOrPatch(ctx, m.Client, child, func() error {
		child.Data = map[string][]byte{}
		for key, value := range source.Data {
			child.Data[key] = []byte(value)
		}
		// It fails if the Secret belongs to another controller.
		return controllerutil.SetControllerReference(source, child, m.Scheme())
	})
	return ctrl.Result{}, err
}

func (m *mirror) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("mirror").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(m)
}

// The controller of docs/coming-from-the-tutorials.md is the one above, which compiles.
func TestControllerOfTheDocument(t *testing.T) {
	_ = (*mirror).SetupWithManager // main would call it
	_, block, _ := strings.Cut(text(t, "docs/coming-from-the-tutorials.md"), "```go\n")
	block, _, _ = strings.Cut(block, "```\n")
	if block == "" || !strings.Contains(text(t, "test/docs/manager_test.go"), block) {
		t.Errorf("the document shows another controller:\n%s", block)
	}
}
