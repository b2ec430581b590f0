package s3

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// denylist are the addresses that never have a bucket. Most of them belong to services that trust
// connections from the operator's place in the network.
var denylist = prefixes(
	"0.0.0.0/8", "::/128", // this host, by another name
	"127.0.0.0/8", "::1/128", // loopback
	"169.254.0.0/16", "fe80::/10", // link-local; the metadata services of most clouds
	"fec0::/10",               // site-local, which link-local replaced
	"224.0.0.0/4", "ff00::/8", // multicast
	"240.0.0.0/4",            // reserved, broadcast
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

// metadataV4 is the address at which most clouds serve metadata.
var metadataV4 = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// ipv4Embeddings are IPv6 ranges whose addresses contain an IPv4 address, with the offsets of its
// first byte. A range with several possible offsets is checked at all of them.
var ipv4Embeddings = []struct {
	prefix netip.Prefix
	at     []int
}{
	{netip.MustParsePrefix("::/96"), []int{12}},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), []int{12}}, // IPv4-translated
	{netip.MustParsePrefix("64:ff9b::/96"), []int{12}},    // NAT64
	// NAT64 with a network-specific prefix of 48, 56, 64 or 96 bits (RFC 6052).
	{netip.MustParsePrefix("64:ff9b:1::/48"), []int{6, 7, 9, 12}},
	{netip.MustParsePrefix("2002::/16"), []int{2}}, // 6to4
	{teredo, []int{4}}, // the server; the client is inverted
}

// reservedOctet is the byte that RFC 6052 skips in an embedded IPv4 address.
const reservedOctet = 8

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// ForbiddenError is returned for an address that must not be dialled.
type ForbiddenError struct{ Address netip.Addr }

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("dialling %s is forbidden", e.Address)
}

// Rules are the addresses that an endpoint may have. Users choose the endpoints, and the operator
// dials them from its own place in the network, where it can reach more than the users can.
type Rules struct {
	// Deny are ranges that must not be dialled, even if Allow contains them.
	Deny []netip.Prefix
	// Allow are ranges that may be dialled although other rules deny them.
	Allow []netip.Prefix
	// Cluster are the addresses of the operator and of the API server. Only Allow permits dialling
	// them.
	Cluster []netip.Prefix
	// Guard wraps the transport of a client and may reject its requests; nil rejects none.
	Guard func(*http.Transport) http.RoundTripper
}

// Check returns a *ForbiddenError for an address that must not be dialled.
func (r Rules) Check(address netip.Addr) error {
	for _, a := range destinations(address) {
		refused := containedIn(denylist, a) || containedIn(r.Cluster, a)
		if containedIn(r.Deny, a) || refused && !containedIn(r.Allow, a) {
			return &ForbiddenError{Address: address}
		}
	}
	return nil
}

// destinations returns the addresses at which a packet to this address may arrive. It cannot detect
// the network's own prefixes (NAT64, 6rd), except where they lead to metadataV4.
func destinations(a netip.Addr) []netip.Addr {
	a = a.WithZone("").Unmap()
	list := []netip.Addr{a}
	if a.Is4() || a.IsLoopback() || a.IsUnspecified() {
		return list
	}
	bytes := a.As16()
	for _, c := range ipv4Embeddings {
		if !c.prefix.Contains(a) {
			continue
		}
		for _, at := range c.at {
			inner := embedded(bytes, at)
			// Other addresses in the range mostly have a zero byte at this offset.
			if len(c.at) == 1 || at == 12 || inner.As4()[0] != 0 {
				list = append(list, inner)
			}
		}
	}
	if teredo.Contains(a) {
		inner := embedded(bytes, 12).As4()
		for i := range inner {
			inner[i] ^= 0xff
		}
		list = append(list, netip.AddrFrom4(inner))
	}
	// A network's own NAT64 prefix cannot be known. No host is likely to have this interface
	// identifier by chance, and clouds choose it for the metadata service.
	if isISATAP(bytes) || embedded(bytes, 12) == metadataV4 {
		list = append(list, embedded(bytes, 12))
	}
	return list
}

// embedded returns the IPv4 address at an offset of an IPv6 address.
func embedded(bytes [16]byte, at int) netip.Addr {
	var inner [4]byte
	for i := range inner {
		if at == reservedOctet {
			at++
		}
		inner[i] = bytes[at]
		at++
	}
	return netip.AddrFrom4(inner)
}

// teredo is the range of Teredo addresses, which contain a client's IPv4 address with inverted
// bits.
var teredo = netip.MustParsePrefix("2001::/32")

// isISATAP reports whether the interface identifier is that of RFC 5214, in any prefix: an IPv4
// address after 00-00-5E-FE, with any value of the universal and group bits.
func isISATAP(bytes [16]byte) bool {
	return bytes[8]&^3 == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe
}

func containedIn(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}

// dialer returns a dialer that applies the rules to each address after name resolution, right
// before the connection. A name that resolves to another address the next time cannot bypass them.
func (r Rules) dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: 30 * time.Second, // the context of a probe usually ends before
		Control: func(_, address string, _ syscall.RawConn) error {
			parsed, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("reading the address to dial: %w", err)
			}
			return r.Check(parsed.Addr())
		},
	}
}
