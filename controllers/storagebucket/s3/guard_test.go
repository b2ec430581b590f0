package s3

import (
	"errors"
	"net/netip"
	"testing"
)

func TestRulesCheck(t *testing.T) {
	rules := Rules{
		Near:  prefixes("10.96.0.0/12", "192.0.2.7/32", "fd00:96::/112"),
		Allow: prefixes("127.0.0.8/29", "10.96.5.0/24", "10.1.0.0/16"),
		Deny:  prefixes("10.1.1.0/24", "127.0.0.15/32", "203.0.113.0/24"),
	}
	for address, allowed := range map[string]bool{
		// What an endpoint may be.
		"192.168.1.5": true, "10.0.0.5": true, "172.16.3.4": true, "198.51.100.9": true,
		"2001:db8::1": true, "fd12:3456::1": true, "::ffff:192.168.1.5": true,
		// This host and its link, by all their names.
		"127.0.0.1": false, "127.255.1.1": false, "::1": false, "::ffff:127.0.0.1": false, "::127.0.0.1": false,
		"0.0.0.0": false, "0.1.2.3": false, "::": false, "fe80::1": false, "fe80::1%eth0": false,
		// Metadata services.
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "64:ff9b::a9fe:a9fe": false, "2002:a9fe:a9fe::1": false,
		"64:ff9b:1::a9fe:a9fe": false, "::ffff:0:169.254.169.254": false, "64:ff9b::c0a8:105": true,
		"fd00:ec2::254": false, "fd20:ce::254": false, "100.100.100.200": false, "168.63.129.16": false, "192.0.0.192": false,
		// Many at once, and nobody.
		"224.0.0.1": false, "239.1.2.3": false, "255.255.255.255": false, "ff02::1": false,
		// The cluster's own.
		"10.96.0.1": false, "10.111.255.255": false, "192.0.2.7": false, "192.0.2.8": true, "fd00:96::1": false, "64:ff9b::a60:1": false,
		// Allowed although forbidden, denied although allowed, denied although harmless.
		"127.0.0.8": true, "127.0.0.14": true, "127.0.0.15": false, "10.96.5.7": true, "::ffff:10.96.5.7": true,
		"10.1.2.3": true, "10.1.1.3": false, "203.0.113.9": false, "64:ff9b::cb00:7109": false,
		// Allowing what stands for an address does not allow the address itself.
		"64:ff9b::7f00:1": false,
	} {
		err := rules.Check(netip.MustParseAddr(address))
		_, refused := errors.AsType[*ForbiddenError](err)
		if refused == allowed || (err != nil) == allowed {
			t.Errorf("%s: %v, want allowed: %t", address, err, allowed)
		}
	}
}

func TestLoopbackOfIPv6CanBeAllowed(t *testing.T) {
	if err := (Rules{Allow: prefixes("::1/128")}).Check(netip.MustParseAddr("::1")); err != nil {
		t.Error(err)
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
		if plain := address.Unmap(); allowed && (plain.IsLoopback() || plain.IsLinkLocalUnicast() || plain.IsMulticast() || plain.IsUnspecified()) {
			t.Errorf("%s is allowed", address)
		}
		if (Rules{Deny: prefixes("0.0.0.0/0", "::/0"), Allow: prefixes("0.0.0.0/0", "::/0")}).Check(address) == nil {
			t.Errorf("%s is allowed although everything is denied", address)
		}
	})
}
