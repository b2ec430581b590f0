// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

var names atomic.Int64

// Unique returns a name that no other spec of any parallel process has.
func Unique(base string) string {
	return fmt.Sprintf("%s-%d-%d", base, GinkgoParallelProcess(), names.Add(1))
}

// Change applies a change to a fresh copy, and retries after a conflict.
func Change[T client.Object](ctx context.Context, c client.Client, o T, f func(T)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
		f(o)
		g.Expect(c.Update(ctx, o)).To(Succeed())
	}).WithContext(ctx).WithTimeout(expect.Short).Should(Succeed())
}

// DeleteNamespaceAfter deletes a namespace after the spec, without waiting, on a cluster that outlives the suite. On a
// control plane of the suite's own it stays, as the end of a namespace is some forty requests.
func (s *Suite) DeleteNamespaceAfter(name string) {
	if s.Outlives() {
		DeferCleanup(func(ctx context.Context) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			Expect(client.IgnoreNotFound(s.Client.Delete(ctx, ns))).To(Succeed())
		})
	}
}

// Kstatus returns the status of an object as deployment tools such as Flux and Helm judge it.
func Kstatus(o client.Object) (status.Status, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return "", fmt.Errorf("converting %T: %w", o, err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: fields})
	if err != nil {
		return "", fmt.Errorf("computing the kstatus of %T: %w", o, err)
	}
	return result.Status, nil
}

// Can queries the API server's authorizer.
func Can(c client.Client, user string, groups []string,
	what authorizationv1.ResourceAttributes) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: groups, ResourceAttributes: &what,
		}}
		err := c.Create(ctx, review)
		return review.Status.Allowed, err
	}
}

// Table reads an object of ours as `kubectl get` shows it: the columns as "name/priority", and the
// cells of its row.
func (s *Suite) Table(ctx context.Context, resource, namespace, name string) (columns []string, cells []any) {
	GinkgoHelper()
	config := rest.CopyConfig(s.Config)
	config.GroupVersion, config.NegotiatedSerializer = &v1beta1.GroupVersion, clientgoscheme.Codecs.WithoutConversion()
	config.APIPath = "/apis"
	rc, err := rest.RESTClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	raw, err := rc.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	Expect(err).NotTo(HaveOccurred())
	var table metav1.Table
	Expect(json.Unmarshal(raw, &table)).To(Succeed())
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, fmt.Sprintf("%s/%d", c.Name, c.Priority))
	}
	Expect(table.Rows).To(HaveLen(1))
	return columns, table.Rows[0].Cells
}

// Warnings stores the API server's warnings to one client.
type Warnings struct {
	mu       sync.Mutex
	messages []string
}

// WarnedClient returns a client and its warnings.
func (s *Suite) WarnedClient() (client.Client, *Warnings) {
	GinkgoHelper()
	warnings := &Warnings{}
	config := rest.CopyConfig(s.Config)
	config.WarningHandlerWithContext = warnings
	c, err := client.New(config, client.Options{Scheme: s.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c, warnings
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *Warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.messages = append(w.messages, message)
}

// All returns the warnings since the last call.
func (w *Warnings) All() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	messages := w.messages
	w.messages = nil
	return messages
}
