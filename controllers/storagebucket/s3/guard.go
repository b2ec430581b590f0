package s3

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// forbidden are addresses at which there is never a bucket, and mostly
// something that trusts who dials from the operator's place.
var forbidden = prefixes(
	"0.0.0.0/8", "::/128", // this host, by another name
	"127.0.0.0/8", "::1/128", // loopback
	"169.254.0.0/16", "fe80::/10", // link-local; the metadata services of most clouds
	"224.0.0.0/4", "ff00::/8", // multicast
	"240.0.0.0/4",        // reserved, broadcast
	"100.100.100.200/32", // metadata of Alibaba Cloud
	"168.63.129.16/32",   // the host agent of Azure
	"192.0.0.192/32",     // metadata of Oracle Cloud
	"fd00:ec2::/32",      // metadata of AWS
	"fd20:ce::254/128",   // metadata of Google Cloud
)

// carriers are IPv6 ranges whose addresses stand for an IPv4 address, which
// begins at the given byte.
var carriers = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},  // NAT64 of a network's own, in its usual form
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// ForbiddenError says that an address may not be dialled.
type ForbiddenError struct{ Address netip.Addr }

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
	// Near are ranges that may not be dialled unless Allow says so, beside those
	// that are forbidden everywhere: the API server, the Services.
	Near []netip.Prefix
}

// Check returns a *ForbiddenError for an address that may not be dialled.
func (r Rules) Check(address netip.Addr) error {
	for _, a := range meanings(address) {
		if within(r.Deny, a) || (!within(r.Allow, a) && (within(forbidden, a) || within(r.Near, a))) {
			return &ForbiddenError{address}
		}
	}
	return nil
}

// meanings are the addresses that a packet to this one may end up at.
func meanings(a netip.Addr) []netip.Addr {
	a = a.WithZone("").Unmap()
	list := []netip.Addr{a}
	bytes := a.AsSlice()
	for _, c := range carriers {
		if c.prefix.Contains(a) && !a.IsLoopback() && !a.IsUnspecified() {
			inner, _ := netip.AddrFromSlice(bytes[c.at : c.at+4]) // four bytes are always an address
			list = append(list, inner)
		}
	}
	return list
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
