package httpcall

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// ErrPrivateAddress: the URL leads to an address that is not on the public internet.
var ErrPrivateAddress = errors.New("private addresses are refused")

// What is not the public internet, or wraps an address that may not be, by the registries of special-purpose
// addresses (RFC 6890 and what followed).
var special = parse(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
	"fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// nat64 wraps an IPv4 address in its last four bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func parse(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(all))
	for i, s := range all {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// public refuses an address that is not on the public internet.
func public(a netip.Addr) error {
	plain := a.Unmap().WithZone("")
	if nat64.Contains(plain) {
		b := plain.As16()
		plain = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !plain.IsValid() || slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(plain) }) {
		return fmt.Errorf("%w: %s", ErrPrivateAddress, a)
	}
	return nil
}
