// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
)

// denylist are the addresses that never have a bucket. Most of them belong to services that trust
// connections from the operator's place in the network.
var denylist = prefixes(
	"0.0.0.0/8", "::/96", // this host, by other names; IPv4-compatible
	"127.0.0.0/8",                 // loopback
	"169.254.0.0/16", "fe80::/10", // link-local; the metadata services of most clouds
	"fec0::/10",               // site-local, which link-local replaced
	"224.0.0.0/4", "ff00::/8", // multicast
	"240.0.0.0/4",                               // reserved, broadcast
	"::ffff:0:0:0/96", "2001::/32", "2002::/16", // former ways to IPv4 addresses: translated, Teredo, 6to4
	"100.64.0.0/10",          // shared between a provider and its customers; metadata of Alibaba Cloud
	"168.63.129.16/32",       // the host agent of Azure
	"192.0.0.192/32",         // metadata of Oracle Cloud
	"fd00:ec2::/32",          // metadata and other services of AWS
	"fd20:ce::254/128",       // metadata of Google Cloud
	"fd00:c1::a9fe:a9fe/128", // metadata of Oracle Cloud
	"fd00:42::42/128",        // metadata of Scaleway
	"fd00:a9fe:a9fe::1/128",  // metadata of Akamai (Linode)
	"fd00:100::100:200/128",  // metadata of Alibaba Cloud
)

var (
	// metadataV4 is the address at which most clouds serve metadata.
	metadataV4 = netip.MustParseAddr("169.254.169.254")
	// nat64 and localNAT64 contain IPv4 addresses, as IPv6-only clusters reach them. The length of a
	// prefix in localNAT64 (RFC 8215) is the network's choice.
	nat64, localNAT64 = netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48")
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// Rules are the addresses that an endpoint may have. Users choose the endpoints, and the operator can
// reach more than they can.
type Rules struct {
	// Deny are ranges that must not be dialled, even if Allow contains them.
	Deny []netip.Prefix
	// Allow are ranges that may be dialled although other rules deny them.
	Allow []netip.Prefix
	// Cluster are the addresses of the operator and of the API server. Only Allow permits them.
	Cluster []netip.Addr
	// Guard wraps the transport of a client and may reject its requests; nil rejects none.
	Guard func(*http.Transport) http.RoundTripper
}

// ClusterAddresses returns the addresses of the operator, and those of the API server by the host that
// the operator uses for it.
func ClusterAddresses(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolving the API server: %w", err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing the operator's own addresses: %w", err)
	}
	for _, address := range own {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			found = append(found, prefix.Addr())
		}
	}
	for i, a := range found {
		found[i] = a.Unmap().WithZone("")
	}
	return found, nil
}

// Forbids reports whether an address must not be dialled.
func (r Rules) Forbids(address netip.Addr) bool {
	return slices.ContainsFunc(destinations(address), func(a netip.Addr) bool {
		in := func(p netip.Prefix) bool { return p.Contains(a) }
		refused := slices.ContainsFunc(denylist, in) || slices.Contains(r.Cluster, a)
		return slices.ContainsFunc(r.Deny, in) || refused && !slices.ContainsFunc(r.Allow, in)
	})
}

// destinations returns the addresses at which a packet to this address may arrive. A NAT64 prefix
// that only the network knows cannot be recognized, except where it leads to metadataV4.
func destinations(a netip.Addr) []netip.Addr {
	a = a.WithZone("").Unmap()
	list := []netip.Addr{a}
	if a.Is4() {
		return list
	}
	bytes := slices.Delete(a.AsSlice(), 8, 9) // RFC 6052 skips this octet
	for _, at := range []int{6, 7, 8, 11} {   // after prefixes of 48, 56, 64 and 96 bits
		inner, _ := netip.AddrFromSlice(bytes[at : at+4])
		// A prefix of another length mostly leaves a zero byte at this offset.
		if localNAT64.Contains(a) && bytes[at] != 0 || at == 11 && (nat64.Contains(a) || inner == metadataV4) {
			list = append(list, inner)
		}
	}
	return list
}

var errForbidden = errors.New("the operator must not connect to this address")

// control is called with each address after name resolution, right before the connection. A name
// that resolves to another address the next time cannot bypass the rules.
func (r Rules) control(_, address string, _ syscall.RawConn) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading the address to dial: %w", err)
	}
	if r.Forbids(parsed.Addr()) {
		return errForbidden
	}
	return nil
}
