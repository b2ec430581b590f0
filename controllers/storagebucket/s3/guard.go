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

// denylist are addresses at which there is never a bucket, and mostly
// something that trusts connections from the operator's place.
var denylist = prefixes(
	"0.0.0.0/8", "::/128", // this host, by another name
	"127.0.0.0/8", "::1/128", // loopback
	"169.254.0.0/16", "fe80::/10", // link-local; the metadata services of most clouds
	"fec0::/10",               // site-local, which link-local replaced
	"224.0.0.0/4", "ff00::/8", // multicast
	"240.0.0.0/4",      // reserved, broadcast
	"100.64.0.0/10",    // between a provider and its customers; metadata of Alibaba Cloud
	"168.63.129.16/32", // the host agent of Azure
	"192.0.0.192/32",   // metadata of Oracle Cloud
	"fd00:ec2::/32",    // metadata of AWS
	"fd20:ce::254/128", // metadata of Google Cloud
)

// private are the ranges of which clusters take their Service ranges. They are
// refused where the Service ranges are not known.
var private = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")

// carriers are IPv6 ranges whose addresses stand for IPv4 addresses, of which
// each begins at one of the given bytes. A range that can carry it at several
// places is read at all of them.
var carriers = []struct {
	prefix netip.Prefix
	at     []int
}{
	{netip.MustParsePrefix("::/96"), []int{12}},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), []int{12}}, // IPv4-translated
	{netip.MustParsePrefix("64:ff9b::/96"), []int{12}},    // NAT64
	// NAT64 of a network's own, with a prefix of 48, 56, 64 or 96 bits (RFC 6052).
	{netip.MustParsePrefix("64:ff9b:1::/48"), []int{6, 7, 9, 12}},
	{netip.MustParsePrefix("2002::/16"), []int{2}}, // 6to4
	{teredo, []int{4}}, // the server; the client is hidden
}

// reservedOctet is the byte that RFC 6052 leaves out of an IPv4 address that
// spans it.
const reservedOctet = 8

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// ForbiddenError says that an address may not be dialled.
type ForbiddenError struct {
	Address netip.Addr
	// ServicesUnknown: the address is refused only because the Service ranges
	// are not known and it could be in one.
	ServicesUnknown bool
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("dialling %s is forbidden", e.Address)
}

// Rules say which addresses an endpoint may have. Endpoints come from users and
// are dialled from the operator's place in the network, where more can be
// reached than from theirs.
type Rules struct {
	// Deny are ranges that may not be dialled, whatever Allow says.
	Deny []netip.Prefix
	// Allow are ranges that may be dialled although they are forbidden otherwise.
	Allow []netip.Prefix
	// Cluster are the addresses of the cluster itself: the API server, the
	// Services. They may not be dialled unless Allow says so.
	Cluster []netip.Prefix
	// ServicesUnknown: Cluster lacks the Service ranges, so private addresses
	// may not be dialled unless Allow says so.
	ServicesUnknown bool
	// Guard wraps the transport of a client and may reject its requests; nil rejects none.
	Guard func(*http.Transport) http.RoundTripper
}

// Check returns a *ForbiddenError for an address that may not be dialled.
func (r Rules) Check(address netip.Addr) error {
	unknown := false
	for _, a := range meanings(address) {
		allowed := within(r.Allow, a)
		if within(r.Deny, a) || (!allowed && (within(denylist, a) || within(r.Cluster, a))) {
			return &ForbiddenError{Address: address}
		}
		unknown = unknown || (r.ServicesUnknown && !allowed && within(private, a))
	}
	if unknown {
		return &ForbiddenError{Address: address, ServicesUnknown: true}
	}
	return nil
}

// meanings are the addresses that a packet to this one may end up at. What a
// network does with prefixes of its own (NAT64, 6rd) cannot be seen from here.
func meanings(a netip.Addr) []netip.Addr {
	a = a.WithZone("").Unmap()
	list := []netip.Addr{a}
	if a.Is4() || a.IsLoopback() || a.IsUnspecified() {
		return list
	}
	bytes := a.As16()
	for _, c := range carriers {
		if !c.prefix.Contains(a) {
			continue
		}
		for _, at := range c.at {
			inner := embedded(bytes, at)
			// The other bytes of an address that is carried elsewhere are mostly zero.
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
	if isISATAP(bytes) {
		list = append(list, embedded(bytes, 12))
	}
	return list
}

// embedded is the IPv4 address that begins at a byte of an IPv6 address.
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

// teredo hides a client's IPv4 address by inverting its bits.
var teredo = netip.MustParsePrefix("2001::/32")

// isISATAP recognizes the interface identifier of RFC 5214, in any prefix: an
// IPv4 address after 00-00-5E-FE, with the universal and group bits of any value.
func isISATAP(bytes [16]byte) bool {
	return bytes[8]&^3 == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe
}

func within(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}

// dialer dials only what the rules let through. It asks after the name has been
// resolved, for each address, right before the connection is made: a name that
// resolves to something else the next time gains nothing.
func (r Rules) dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: 30 * time.Second, // the context of a probe mostly ends earlier
		Control: func(_, address string, _ syscall.RawConn) error {
			parsed, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("reading the address to dial: %w", err)
			}
			return r.Check(parsed.Addr())
		},
	}
}
