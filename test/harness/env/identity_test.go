// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// The ServiceAccount that a namespace gets by itself may not be there yet. One that the manifests lack never is.
func TestBindToken_WaitsForTheDefaultAccount(t *testing.T) {
	for name, tc := range map[string]struct {
		account string
		missing int // requests
		want    string
	}{
		"There":     {defaultAccount, 0, ""},
		"Soon":      {defaultAccount, 3, ""},
		"Never":     {defaultAccount, 1000, "requesting a token of ServiceAccount default: "},
		"NotMadeBy": {"small", 1, "requesting a token of ServiceAccount small: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, missing := NewWithT(t), tc.missing
				c := &ControlPlane{client: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
					SubResourceCreate: func(_ context.Context, _ client.Client, _ string, o, request client.Object,
						_ ...client.SubResourceCreateOption) error {
						if missing--; missing >= 0 {
							return apierrors.NewNotFound(corev1.Resource("serviceaccounts"), o.GetName())
						}
						request.(*authenticationv1.TokenRequest).Status.Token = "a token"
						return nil
					},
				}).Build()}
				o := ReplicaOptions{Name: "operator"}
				o.Template.Spec = corev1.PodSpec{ServiceAccountName: tc.account, Containers: []corev1.Container{{}}}
				_, token, err := c.bindToken(t.Context(), o)
				if tc.want != "" {
					g.Expect(err).To(MatchError(HavePrefix(tc.want)))
					return
				}
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(token).To(Equal("a token"))
			})
		})
	}
}
