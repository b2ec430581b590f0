package storagebucket

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/lookup"
	"leasehold.dev/controllers/storagebucket/s3"
)

// surroundingsAge is how long what was learned of the cluster's own addresses is
// believed; they hardly ever change.
const surroundingsAge = 10 * time.Minute

// surroundings knows the cluster's own addresses, which no endpoint may lead to:
// our own, those of the API server and of the Services.
type surroundings struct {
	live  client.Reader
	host  string // of the API server, as the operator reaches it
	clock clock.PassiveClock
	rules s3.Rules

	mu      sync.Mutex
	near    []netip.Prefix
	learned time.Time
}

// current are the rules with what is known of the surroundings, which is learned
// again when it is old. Where that fails nothing may be dialled.
func (s *surroundings) current(ctx context.Context) (s3.Rules, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.learned.IsZero() || s.clock.Since(s.learned) > surroundingsAge {
		near, err := s.learn(ctx)
		if err != nil {
			return s3.Rules{}, err
		}
		s.near, s.learned = near, s.clock.Now()
	}
	rules := s.rules
	rules.Near = s.near
	return rules, nil
}

func (s *surroundings) learn(ctx context.Context) ([]netip.Prefix, error) {
	ranges := sets.New[netip.Prefix]()
	// The API server by the name that the operator uses for it.
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", s.host)
	if err != nil {
		return nil, fmt.Errorf("resolving the API server: %w", err)
	}
	ranges.Insert(hosts(addresses)...)
	// Ourselves, by all our addresses.
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing our own addresses: %w", err)
	}
	for _, address := range own {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			ranges.Insert(hosts([]netip.Addr{prefix.Addr()})...)
		}
	}
	// The API server by the addresses that it gives itself.
	slice, err := lookup.Get(ctx, s.live, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, &discoveryv1.EndpointSlice{})
	if err != nil {
		return nil, fmt.Errorf("reading endpoint slice default/kubernetes: %w", err)
	}
	if slice != nil {
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil {
					ranges.Insert(hosts([]netip.Addr{address})...)
				}
			}
		}
	}
	var services networkingv1.ServiceCIDRList
	// Kubernetes before 1.33 does not say; --endpoint-deny-cidr does there.
	if err := s.live.List(ctx, &services); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("listing service CIDRs: %w", err)
	}
	for _, item := range services.Items {
		for _, text := range item.Spec.CIDRs {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				ranges.Insert(prefix.Masked())
			}
		}
	}
	return ranges.UnsortedList(), nil
}

func hosts(addresses []netip.Addr) []netip.Prefix {
	var list []netip.Prefix
	for _, a := range addresses {
		a = a.Unmap().WithZone("")
		list = append(list, netip.PrefixFrom(a, a.BitLen()))
	}
	return list
}

// hostOf is the host of a URL, or of what stands for one in a kubeconfig.
func hostOf(server string) string {
	if u, err := url.Parse(server); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return server
	}
	return host
}
