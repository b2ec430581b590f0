package storagebucket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/controllers/storagebucket/s3"
)

func TestClusterCIDRs(t *testing.T) {
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
	s := &clusterCIDRs{live: live, host: "203.0.113.1", clock: now,
		rules: s3.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("10.96.9.0/24")}}}

	rules, err := s.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for address, allowed := range map[string]bool{
		"203.0.113.1": false, "192.0.2.10": false, "192.0.2.11": false, "10.96.0.1": false, "10.110.4.5": false,
		"fd00:96::10": false,
		"10.96.9.9":   true, "203.0.113.2": true, "10.0.0.1": true,
	} {
		if got := rules.Check(netip.MustParseAddr(address)) == nil; got != allowed {
			t.Errorf("%s: allowed %t, want %t", address, got, allowed)
		}
	}
	// Each machine has a loopback address, which Check refuses anyway.
	own, err := net.InterfaceAddrs()
	if err != nil || len(own) == 0 {
		t.Fatalf("%d addresses of our own (%v), want some", len(own), err)
	}
	for _, address := range own {
		ip := netip.MustParsePrefix(address.String()).Addr()
		if !slices.Contains(rules.Cluster, hostPrefix(ip)) {
			t.Errorf("%s: not refused as our own", ip)
		}
	}

	now.SetTime(epoch.Add(clusterCIDRsTTL))
	if _, err := s.current(t.Context()); err != nil || lists != 1 {
		t.Errorf("%d requests within %s (%v), want one", lists, clusterCIDRsTTL, err)
	}
	now.SetTime(epoch.Add(clusterCIDRsTTL + time.Second))
	broken = errors.New("no right")
	if _, err := s.current(t.Context()); err == nil {
		t.Error("what could not be learned again was believed to be as before")
	}
}

// The API server's response decides which private addresses are denied.
func TestClusterCIDRs_serviceRanges(t *testing.T) {
	noMatch := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}, "",
		nil)
	type outcome struct{ services, private, lists, unknown, failed bool }
	known := outcome{services: true, lists: true}
	unknown := outcome{services: true, private: true, lists: true, unknown: true}
	for name, tc := range map[string]struct {
		flag          string
		v1, beta      error
		itemV1, empty bool
		want          outcome
	}{
		"in the API":                 {itemV1: true, beta: noMatch, want: known},
		"in the v1beta1 API":         {v1: noMatch, want: known},
		"no such API":                {v1: noMatch, beta: noMatch, want: unknown},
		"a removed API":              {v1: apierrors.NewNotFound(schema.GroupResource{}, ""), want: unknown},
		"a missing right":            {v1: forbidden, want: unknown},
		"an empty list":              {empty: true, beta: noMatch, want: unknown},
		"in the flag":                {flag: "10.96.0.0/12", v1: noMatch, beta: noMatch, want: outcome{services: true}},
		"a flag against the API":     {flag: "192.0.2.0/24", itemV1: true, want: outcome{}},
		"an API server that is down": {v1: errors.New("down"), want: outcome{lists: true, failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			lists := false
			live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					lists = true
					switch list := list.(type) {
					case *networkingv1.ServiceCIDRList:
						if tc.itemV1 {
							list.Items = []networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}}}
						}
						return tc.v1
					case *networkingv1beta1.ServiceCIDRList:
						if tc.beta == nil && !tc.empty {
							list.Items = []networkingv1beta1.ServiceCIDR{{
								Spec: networkingv1beta1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}}}
						}
						return tc.beta
					}
					return fmt.Errorf("listing %T was not expected", list)
				},
			}).Build()
			c := &clusterCIDRs{live: live, host: "203.0.113.1", clock: testingclock.NewFakePassiveClock(epoch)}
			if tc.flag != "" {
				c.services = []netip.Prefix{netip.MustParsePrefix(tc.flag)}
			}
			rules, err := c.current(t.Context())
			refused := func(address string) bool { return rules.Check(netip.MustParseAddr(address)) != nil }
			got := outcome{refused("10.96.0.10"), refused("10.0.0.5"), lists, rules.ServicesUnknown, err != nil}
			if got != tc.want {
				t.Errorf("%+v (%v), want %+v", got, err, tc.want)
			}
		})
	}
}

// The known Service ranges decide which endpoints users may name. So the log has them at the start
// and after each change, and does not repeat them.
func TestServiceRangesAreLogged(t *testing.T) {
	const unknown, known = "does not list the Service ranges", "refusing endpoints of StorageBuckets in the Service ranges"
	listed := false
	live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			if list, ok := list.(*networkingv1.ServiceCIDRList); ok && listed {
				list.Items = []networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}}}
			}
			return nil
		},
	}).Build()
	for flag, calls := range map[string][]struct {
		listed bool
		want   string // "" for no line
	}{
		"":             {{false, unknown}, {false, ""}, {true, known}, {true, ""}, {false, unknown}},
		"10.96.0.0/12": {{false, known}, {true, ""}, {false, ""}},
	} {
		var logged []string
		logger := funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})
		ctx := log.IntoContext(t.Context(), logger)
		now := testingclock.NewFakePassiveClock(epoch)
		c := &clusterCIDRs{live: live, host: "203.0.113.1", clock: now}
		if flag != "" {
			c.services = []netip.Prefix{netip.MustParsePrefix(flag)}
		}
		for i, call := range calls {
			listed, logged = call.listed, nil
			if _, err := c.current(ctx); err != nil {
				t.Fatal(err)
			}
			line := strings.Join(logged, "\n")
			if (line == "") != (call.want == "") || !strings.Contains(line, call.want) || len(logged) > 1 {
				t.Errorf("flag %q, call %d: logged %q, want a line with %q", flag, i, line, call.want)
			}
			if byFlag := strings.Contains(line, `"byFlag"=true`); byFlag != (flag != "" && line != "") {
				t.Errorf("flag %q, call %d: %q", flag, i, line)
			}
			now.SetTime(now.Now().Add(clusterCIDRsTTL + time.Second))
		}
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
