// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"net/netip"
	"slices"
	"testing"
)

// Rules without the addresses of the API server would permit them.
func TestClusterAddressesRequireTheAPIServer(t *testing.T) {
	if got, err := ClusterAddresses(t.Context(), ""); err == nil {
		t.Errorf("without a name that leads to the API server: %v, want an error", got)
	}
}

func TestRulesForbids(t *testing.T) {
	rules := Rules{
		Cluster: []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00:96::1")},
		Allow:   prefixes("127.0.0.8/29", "::1/128", "10.1.0.0/16", "192.0.0.192/32"),
		Deny:    prefixes("10.1.1.0/24", "127.0.0.15/32", "203.0.113.0/24"),
	}
	for allowed, addresses := range map[bool][]string{
		true: {
			"192.168.1.5", "10.0.0.5", "172.16.3.4", "198.51.100.9", "2001:db8::1", "fd12:3456::1", "::ffff:192.168.1.5",
			"10.96.0.2", "fd00:96::2", "64:ff9b::a60:2",
			// Allowed although forbidden.
			"::1", "127.0.0.8", "127.0.0.14", "10.1.2.3", "::ffff:10.1.2.3", "192.0.0.192",
			// NAT64 to 192.168.1.5, with prefixes of 96 and 48 bits; another prefix.
			"64:ff9b::c0a8:105", "64:ff9b:1::c0a8:105", "64:ff9b:1:c0a8:1:500::", "64:ff9b:2::7f00:1",
		},
		false: {
			"::7f00:1", "fe80::1%eth0", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "127.0.0.7", "127.0.0.16",
			// The addresses of the cluster; denied although allowed or public.
			"10.96.0.1", "fd00:96::1", "127.0.0.15", "10.1.1.3", "203.0.113.9",
			// IPv4-translated, Teredo and 6to4, whatever is in them.
			"::ffff:0:c0a8:105", "2001:0:c0a8:105:0:0:3f57:fefa", "2002:c0a8:105::",
			// NAT64: with prefixes of 96, 64, 56 and 48 bits, and with one that only the network knows.
			"64:ff9b::7f00:1", "64:ff9b::a60:1", "64:ff9b::cb00:7109", "64:ff9b:1::7f00:1", "64:ff9b:1:0:7f:0:100:0",
			"64:ff9b:1:7f:0:1::", "64:ff9b:1:7f00:0:100::", "2001:db8:64::a9fe:a9fe",
		},
	} {
		for _, address := range addresses {
			if got := !rules.Forbids(netip.MustParseAddr(address)); got != allowed {
				t.Errorf("%s: allowed %t, want %t", address, got, allowed)
			}
		}
	}
}

// Without other rules these ranges are denied, from the first to the last address.
func TestRulesForbids_denylist(t *testing.T) {
	parse := netip.MustParseAddr
	ranges := [][2]netip.Addr{}
	for first, last := range map[string]string{
		"0.0.0.0": "0.255.255.255", "100.64.0.0": "100.127.255.255", "127.0.0.0": "127.255.255.255",
		"168.63.129.16": "168.63.129.16", "169.254.0.0": "169.254.255.255", "192.0.0.192": "192.0.0.192",
		"224.0.0.0": "239.255.255.255", "240.0.0.0": "255.255.255.255", "::": "::ffff:ffff",
		"::ffff:0:0:0": "::ffff:0:ffff:ffff", "2001::": "2001:0:ffff:ffff:ffff:ffff:ffff:ffff",
		"2002::": "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fd00:42::42": "fd00:42::42",
		"fd00:100::100:200": "fd00:100::100:200", "fd00:a9fe:a9fe::1": "fd00:a9fe:a9fe::1",
		"fd00:c1::a9fe:a9fe": "fd00:c1::a9fe:a9fe", "fd00:ec2::": "fd00:ec2:ffff:ffff:ffff:ffff:ffff:ffff",
		"fd20:ce::254": "fd20:ce::254", "fe80::": "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"fec0::": "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ff00::": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	} {
		ranges = append(ranges, [2]netip.Addr{parse(first), parse(last)})
	}
	for _, r := range ranges {
		for _, a := range []netip.Addr{r[0].Prev(), r[0], r[1], r[1].Next()} {
			want := slices.ContainsFunc(ranges, func(r [2]netip.Addr) bool { return !a.Less(r[0]) && !r[1].Less(a) })
			if a.IsValid() && (Rules{}).Forbids(a) != want {
				t.Errorf("%s: forbidden %t, want %t", a, !want, want)
			}
		}
	}
}

// Allowing an embedding address does not allow the embedded address. Both have to be allowed.
func TestRulesForbids_embedded(t *testing.T) {
	for address, inner := range map[string]string{
		"64:ff9b::7f00:1": "127.0.0.1", "64:ff9b::a60:1": "10.96.0.1", "64:ff9b:1::a9fe:a9fe": "169.254.169.254",
		"2001:db8:64::a9fe:a9fe": "169.254.169.254",
	} {
		outer, cluster := prefixes(address+"/128"), []netip.Addr{netip.MustParseAddr("10.96.0.1")}
		both := slices.Concat(outer, prefixes(inner+"/32"))
		for _, tc := range []struct {
			rules Rules
			want  bool
		}{
			{Rules{Allow: outer}, true}, {Rules{Allow: both}, false}, {Rules{Allow: both, Deny: both[1:]}, true},
			{Rules{Allow: both, Deny: outer}, true},
		} {
			tc.rules.Cluster = cluster
			if got := tc.rules.Forbids(netip.MustParseAddr(address)); got != tc.want {
				t.Errorf("%s by %+v: forbidden %t, want %t", address, tc.rules, got, tc.want)
			}
		}
	}
}
