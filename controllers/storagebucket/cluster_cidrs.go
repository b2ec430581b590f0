package storagebucket

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/storagebucket/s3"
)

// clusterCIDRsTTL is how long the cluster's addresses are cached; they hardly
// ever change.
const clusterCIDRsTTL = 10 * time.Minute

// clusterCIDRs caches the cluster's own addresses, which no endpoint may lead
// to: those of the operator, of the API server and of the Services.
type clusterCIDRs struct {
	live  client.Reader
	host  string // of the API server, as the operator reaches it
	clock clock.PassiveClock
	rules s3.Rules
	// services are the Service ranges that the flag names; without it the API
	// server lists them.
	services []netip.Prefix

	mu      sync.Mutex
	cluster []netip.Prefix
	unknown bool // the Service ranges are not among them
	read    time.Time
}

// current returns the rules with the cluster's addresses, which are read again
// after clusterCIDRsTTL. Nothing may be dialled where that fails.
func (c *clusterCIDRs) current(ctx context.Context) (s3.Rules, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read.IsZero() || c.clock.Since(c.read) > clusterCIDRsTTL {
		if err := c.refresh(ctx); err != nil {
			return s3.Rules{}, err
		}
	}
	rules := c.rules
	rules.Cluster, rules.ServicesUnknown = c.cluster, c.unknown
	return rules, nil
}

// refresh reads the cluster's addresses, and logs what is known of the Service
// ranges the first time and when that changes.
func (c *clusterCIDRs) refresh(ctx context.Context) error {
	nodes, err := c.addresses(ctx)
	if err != nil {
		return err
	}
	services, unknown := c.services, false
	if len(services) == 0 {
		if services, err = c.serviceCIDRs(ctx); err != nil {
			return err
		}
		unknown = len(services) == 0
	}
	if logger := log.FromContext(ctx); c.read.IsZero() || unknown != c.unknown {
		if unknown {
			logger.Info("refusing endpoints of StorageBuckets with private addresses, because the API server does not " +
				"list the Service ranges; name the ranges with --service-cidr, or allow addresses with --endpoint-allow-cidr")
		} else {
			logger.Info("refusing endpoints of StorageBuckets in the Service ranges", "ranges", services, "byFlag",
				len(c.services) > 0)
		}
	}
	c.cluster, c.unknown, c.read = slices.Concat(nodes, services), unknown, c.clock.Now()
	return nil
}

// addresses returns those of the operator and of the API server.
func (c *clusterCIDRs) addresses(ctx context.Context) ([]netip.Prefix, error) {
	found := sets.New[netip.Prefix]()
	// The API server by the name that the operator uses for it.
	resolved, err := net.DefaultResolver.LookupNetIP(ctx, "ip", c.host)
	if err != nil {
		return nil, fmt.Errorf("resolving the API server: %w", err)
	}
	for _, address := range resolved {
		found.Insert(hostPrefix(address))
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing our own addresses: %w", err)
	}
	for _, address := range own {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			found.Insert(hostPrefix(prefix.Addr()))
		}
	}
	// The API server by the addresses that it gives itself.
	slice, err := reconciler.Get(ctx, c.live, client.ObjectKey{Namespace: "default", Name: "kubernetes"},
		&discoveryv1.EndpointSlice{})
	if err != nil {
		return nil, fmt.Errorf("reading endpoint slice default/kubernetes: %w", err)
	}
	if slice != nil {
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil {
					found.Insert(hostPrefix(address))
				}
			}
		}
	}
	return found.UnsortedList(), nil
}

// serviceCIDRs returns the Service ranges that the API server lists. There are none if it does not
// serve this API, which is off by default before Kubernetes 1.33, or denies the list.
func (c *clusterCIDRs) serviceCIDRs(ctx context.Context) ([]netip.Prefix, error) {
	var texts []string
	var list networkingv1.ServiceCIDRList
	err := c.live.List(ctx, &list)
	for _, item := range list.Items {
		texts = append(texts, item.Spec.CIDRs...)
	}
	if meta.IsNoMatchError(err) {
		var beta networkingv1beta1.ServiceCIDRList
		err = c.live.List(ctx, &beta)
		for _, item := range beta.Items {
			texts = append(texts, item.Spec.CIDRs...)
		}
	}
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("listing service CIDRs: %w", err)
	}
	var ranges []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, prefix.Masked())
		}
	}
	return ranges, nil
}

// hostPrefix is the range of one address.
func hostPrefix(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen())
}

// hostOf returns the host of a URL, or of a kubeconfig's server without a scheme.
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
