package storagebucket

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/controllers/storagebucket/s3"
)

func TestSurroundings(t *testing.T) {
	var lists int
	var broken error
	live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.10", "192.0.2.11"}}},
		},
		&networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12", "fd00:96::/112"}},
		},
	).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return errors.Join(broken, c.List(ctx, list, opts...))
		},
	}).Build()
	now := testingclock.NewFakePassiveClock(epoch)
	s := &surroundings{live: live, host: "203.0.113.1", clock: now, rules: s3.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("10.96.9.0/24")}}}

	rules, err := s.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for address, allowed := range map[string]bool{
		"203.0.113.1": false, "192.0.2.10": false, "192.0.2.11": false, "10.96.0.1": false, "10.110.4.5": false, "fd00:96::10": false,
		"10.96.9.9": true, "203.0.113.2": true, "10.0.0.1": true,
	} {
		if got := rules.Check(netip.MustParseAddr(address)) == nil; got != allowed {
			t.Errorf("%s: allowed %t, want %t", address, got, allowed)
		}
	}

	now.SetTime(epoch.Add(surroundingsAge))
	if _, err := s.current(t.Context()); err != nil || lists != 1 {
		t.Errorf("asked %d times within %s (%v), want once", lists, surroundingsAge, err)
	}
	now.SetTime(epoch.Add(surroundingsAge + time.Second))
	broken = errors.New("no right")
	if _, err := s.current(t.Context()); err == nil {
		t.Error("what could not be learned again was believed to be as before")
	}
}

func TestHostOf(t *testing.T) {
	for server, want := range map[string]string{
		"https://10.0.0.1:443": "10.0.0.1", "https://[::1]:6443/path": "::1", "https://api.example.com": "api.example.com",
		"127.0.0.1:6443": "127.0.0.1", "localhost": "localhost",
	} {
		if got := hostOf(server); got != want {
			t.Errorf("hostOf(%q) = %q, want %q", server, got, want)
		}
	}
}
