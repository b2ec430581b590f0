package s3

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
)

func TestRulesCheck(t *testing.T) {
	rules := Rules{
		Cluster: prefixes("10.96.0.0/12", "192.0.2.7/32", "fd00:96::/112"),
		Allow:   prefixes("127.0.0.8/29", "::1/128", "10.96.5.0/24", "10.1.0.0/16"),
		Deny:    prefixes("10.1.1.0/24", "127.0.0.15/32", "203.0.113.0/24"),
	}
	for address, allowed := range map[string]bool{
		// Addresses that an endpoint may have.
		"192.168.1.5": true, "10.0.0.5": true, "172.16.3.4": true, "198.51.100.9": true,
		"2001:db8::1": true, "fd12:3456::1": true, "::ffff:192.168.1.5": true,
		// IPv4-mapped addresses, zones, and services of clouds.
		"::ffff:127.0.0.1": false, "::1": true, "::": false, "fe80::1%eth0": false, "::ffff:169.254.169.254": false,
		"100.100.100.200": false, "fd00:c1::a9fe:a9fe": false, "fd00:c1::a9fe:a9fd": true, "fd00:c1::a9fe:a9ff": true,
		"2001:db8:64::a9fe:a9fe": false, // in a NAT64 prefix of the network
		// The addresses of the cluster.
		"10.96.0.1": false, "10.111.255.255": false, "192.0.2.7": false, "192.0.2.8": true, "fd00:96::1": false,
		"64:ff9b::a60:1": false,
		// Allowed although forbidden, denied although allowed, denied although public.
		"127.0.0.8": true, "127.0.0.14": true, "127.0.0.15": false, "10.96.5.7": true, "::ffff:10.96.5.7": true,
		"10.1.2.3": true, "10.1.1.3": false, "203.0.113.9": false, "64:ff9b::cb00:7109": false,
	} {
		err := rules.Check(netip.MustParseAddr(address))
		_, refused := errors.AsType[*ForbiddenError](err)
		if refused == allowed || (err != nil) == allowed {
			t.Errorf("%s: %v, want allowed: %t", address, err, allowed)
		}
	}
}

// The first and the last address of each range are denied; the neighbours on both sides are
// allowed.
func TestRulesCheck_edges(t *testing.T) {
	// "" means that the range has no neighbour below or above.
	for _, edge := range []struct{ below, first, last, above string }{
		{"", "0.0.0.0", "0.255.255.255", "1.0.0.0"},
		{"", "::", "::1", ""},
		{"126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"},
		{"169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"},
		{"100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"},
		{"168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17"},
		{"192.0.0.191", "192.0.0.192", "192.0.0.192", "192.0.0.193"},
		{"223.255.255.255", "224.0.0.0", "255.255.255.255", ""},
		{"fd00:ec1:ffff:ffff:ffff:ffff:ffff:ffff", "fd00:ec2::", "fd00:ec2:ffff:ffff:ffff:ffff:ffff:ffff", "fd00:ec3::"},
		{"fd00:42::41", "fd00:42::42", "fd00:42::42", "fd00:42::43"},
		{"fd00:a9fe:a9fe::", "fd00:a9fe:a9fe::1", "fd00:a9fe:a9fe::1", "fd00:a9fe:a9fe::2"},
		{"fd00:100::100:1ff", "fd00:100::100:200", "fd00:100::100:200", "fd00:100::100:201"},
		{"fd20:ce::253", "fd20:ce::254", "fd20:ce::254", "fd20:ce::255"},
		{"fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe80::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ff00::"},
		{"fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fec0::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		// The addresses of the cluster.
		{"9.255.255.255", "10.0.0.0", "10.0.0.255", "10.0.1.0"},
		{"fd00:96::", "fd00:96::1:0", "fd00:96::1:ffff", "fd00:96::2:0"},
	} {
		rules := Rules{Cluster: prefixes("10.0.0.0/24", "fd00:96::1:0/112")}
		for _, inside := range []string{edge.first, edge.last} {
			if err := rules.Check(netip.MustParseAddr(inside)); err == nil {
				t.Errorf("%s is allowed", inside)
			}
		}
		for _, outside := range []string{edge.below, edge.above} {
			if outside == "" || outside == "ff00::" {
				continue
			}
			if err := rules.Check(netip.MustParseAddr(outside)); err != nil {
				t.Errorf("%s: %v", outside, err)
			}
		}
	}
}

// An IPv6 address with an embedded IPv4 address is denied with it. It is allowed if one bit of the
// format differs or if the IPv4 address may be dialled.
func TestRulesCheck_embedded(t *testing.T) {
	for address, allowed := range map[string]bool{
		// ISATAP: 169.254.169.254, 127.0.0.1, 192.168.1.5.
		"2001:db8::5efe:a9fe:a9fe": false, "2001:db8:1:2:200:5efe:7f00:1": false, "2001:db8::100:5efe:7f00:1": false,
		"2001:db8::300:5efe:7f00:1": false, "fd12:3456::5efe:169.254.169.254": false,
		"2001:db8::5efe:c0a8:105": true, "2001:db8::400:5efe:7f00:1": true, "2001:db8::1:5efe:7f00:1": true,
		"2001:db8::5eff:7f00:1": true, "2001:db8::5ffe:7f00:1": true,
		// Teredo: the server, and the client with its bits inverted.
		"2001:0:a9fe:a9fe:0:0:3f57:fefa": false, "2001:0:c0a8:105:0:0:80ff:fffe": false,
		"2001:0:c0a8:105:8000:f227:5601:5601": false,
		"2001:0:c0a8:105:0:0:3f57:fefa":       true, "2001:1:c0a8:105:0:0:80ff:fffe": true,
		"2000:ffff:a9fe:a9fe:0:0:80ff:fffe": true,
		// NAT64 with a network-specific prefix of 96, 64, 56 and 48 bits.
		"64:ff9b:1::7f00:1": false, "64:ff9b:1:0:7f:0:100:0": false, "64:ff9b:1:7f:0:1::": false,
		"64:ff9b:1:7f00:0:100::": false, "64:ff9b:1::1": false, // 0.0.0.1 has a first byte of zero, too
		"64:ff9b:1::c0a8:105": true, "64:ff9b:1:0:c0:a801:500:0": true, "64:ff9b:2::7f00:1": true,
		"64:ff9b:0:ffff::7f00:1": true,
		// NAT64, 6to4, IPv4-compatible and IPv4-translated.
		"64:ff9b::7f00:1": false, "64:ff9b::1:7f00:1": true, "2002:7f00:1::": false, "2002:c0a8:105::": true,
		"2003:7f00:1::": true,
		"::7f00:1":      false, "::1:7f00:1": true, "::ffff:0:7f00:1": false, "::fffe:0:7f00:1": true,
		"::ffff:1:7f00:1": true,
	} {
		if err := (Rules{}).Check(netip.MustParseAddr(address)); (err == nil) != allowed {
			t.Errorf("%s: %v, want allowed: %t", address, err, allowed)
		}
	}
}

// Allowing an embedding address does not allow the embedded address. Both have to be allowed.
func TestRulesCheck_allowed_embedding(t *testing.T) {
	for address, inner := range map[string]string{
		"64:ff9b::7f00:1": "127.0.0.1", "64:ff9b::a60:1": "10.96.0.1", "64:ff9b:1::a9fe:a9fe": "169.254.169.254",
		"2002:7f00:1::": "127.0.0.1", "::ffff:0:7f00:1": "127.0.0.1", "2001:db8::5efe:7f00:1": "127.0.0.1",
		"2001:0:a9fe:a9fe:0:0:3f57:fefa": "169.254.169.254", "2001:db8:64::a9fe:a9fe": "169.254.169.254",
	} {
		outer, cluster := prefixes(address+"/128"), prefixes("10.96.0.0/12")
		if err := (Rules{Allow: outer, Cluster: cluster}).Check(netip.MustParseAddr(address)); err == nil {
			t.Errorf("%s is allowed, and %s in it is not", address, inner)
		}
		both := slices.Concat(outer, prefixes(inner+"/32"))
		if err := (Rules{Allow: both, Cluster: cluster}).Check(netip.MustParseAddr(address)); err != nil {
			t.Errorf("%s and %s are allowed: %v", address, inner, err)
		}
		if err := (Rules{Allow: both, Deny: prefixes(inner + "/32"), Cluster: cluster}).
			Check(netip.MustParseAddr(address)); err == nil {
			t.Errorf("%s is allowed, and %s in it is denied", address, inner)
		}
		if err := (Rules{Allow: both[1:], Deny: outer, Cluster: cluster}).
			Check(netip.MustParseAddr(address)); err == nil {
			t.Errorf("%s is denied and may be dialled", address)
		}
	}
}

func FuzzRulesCheck(f *testing.F) {
	for _, seed := range []string{"127.0.0.1", "::ffff:127.0.0.1", "fe80::1%eth0", "64:ff9b::7f00:1", "8.8.8.8"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return
		}
		allowed := (Rules{}).Check(address) == nil
		if plain := address.Unmap(); allowed &&
			(plain.IsLoopback() || plain.IsLinkLocalUnicast() || plain.IsMulticast() || plain.IsUnspecified()) {
			t.Errorf("%s is allowed", address)
		}
		if (Rules{Deny: prefixes("0.0.0.0/0", "::/0"), Allow: prefixes("0.0.0.0/0", "::/0")}).Check(address) == nil {
			t.Errorf("%s is allowed although everything is denied", address)
		}
	})
}
