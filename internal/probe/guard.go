package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// dialTimeout bounds one connection attempt that nothing else bounds.
const dialTimeout = 15 * time.Second

// AddressError says that the guard refused to connect to an address.
type AddressError struct {
	// Addr is the address that a host name resolved to.
	Addr netip.Addr
	// Kind says what is at such addresses.
	Kind string
}

// Error names the address and the flag that would allow it.
func (e *AddressError) Error() string {
	if !e.Addr.IsValid() || e.Addr.Zone() != "" {
		return fmt.Sprintf("connecting to %s (%s) is not allowed", e.Addr, e.Kind)
	}
	return fmt.Sprintf("connecting to %s (%s) is not allowed; if the tool really is there, start the manager with --probe-allow=%s",
		e.Addr, e.Kind, netip.PrefixFrom(e.Addr, e.Addr.BitLen()))
}

// Guard decides to which addresses the manager connects on behalf of a Tool or a recipe. It looks at the address that
// is really dialed, after the name was resolved, so that no name server can lead a probe elsewhere.
//
// Refused are this machine, the local link, cloud metadata services, multicast and reserved addresses, in every
// notation that IPv6 has for them. Private networks are allowed: tools live in the cluster. The zero Guard does this.
type Guard struct {
	// Allow lists addresses that are allowed whatever else is said here. It beats Deny and the defaults.
	Allow []netip.Prefix
	// Deny lists further addresses that are refused, such as the Kubernetes API server's.
	Deny []netip.Prefix
}

// refusal is a range of addresses that is refused by default.
type refusal struct {
	prefix netip.Prefix
	kind   string
}

// refusals come from the IANA special-purpose address registries (RFC 6890) and the documentation of the cloud
// providers' metadata services.
var refusals = []refusal{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, cloud metadata"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments, cloud metadata"},
	{netip.MustParsePrefix("100.100.100.200/32"), "cloud metadata"},
	{netip.MustParsePrefix("168.63.129.16/32"), "cloud metadata"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved, broadcast"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "cloud metadata"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "cloud metadata"},
	{netip.MustParsePrefix("100::/64"), "discard-only"},
	// Where these two lead is for the network's translators to say.
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local IPv4 translation"},
	{netip.MustParsePrefix("2001::/32"), "Teredo tunnel"},
}

// embeddings are the IPv6 ranges that hold an IPv4 address, from the given byte on.
var embeddings = []struct {
	prefix netip.Prefix
	offset int
}{
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible, RFC 4291 §2.5.5.1
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated, RFC 2765 §2.1
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64, RFC 6052 §2.1
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4, RFC 3056 §2
}

// Check returns nil if a connection to addr is allowed, else an *AddressError.
func (g Guard) Check(addr netip.Addr) error {
	addr = addr.Unmap()
	switch {
	case !addr.IsValid():
		return &AddressError{addr, "no IP address"}
	case addr.Zone() != "":
		return &AddressError{addr, "bound to a network interface"}
	case contains(g.Allow, addr):
		return nil
	}
	for _, candidate := range []netip.Addr{addr, embedded(addr)} {
		if contains(g.Deny, candidate) {
			return &AddressError{addr, "denied to probes"}
		}
		for _, r := range refusals {
			if r.prefix.Contains(candidate) {
				return &AddressError{addr, r.kind}
			}
		}
	}
	return nil
}

// embedded returns the IPv4 address that addr is another notation for, else an invalid address.
func embedded(addr netip.Addr) netip.Addr {
	bytes := addr.As16()
	for _, e := range embeddings {
		if e.prefix.Contains(addr) {
			return netip.AddrFrom4([4]byte(bytes[e.offset : e.offset+4]))
		}
	}
	return netip.Addr{}
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Transport returns an HTTP transport that connects only where the guard allows, directly and never through a proxy:
// a proxy would resolve names itself. Certificates are verified. Each call returns a new one.
func (g Guard) Transport() *http.Transport {
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            g.dialer().DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: 1 << 20,
		MaxIdleConns:           16,
		IdleConnTimeout:        90 * time.Second,
	}
}

func (g Guard) dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: dialTimeout,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return &AddressError{netip.Addr{}, "network " + network}
			}
			target, err := netip.ParseAddrPort(address)
			if err != nil {
				return &AddressError{netip.Addr{}, "no IP address"}
			}
			return g.Check(target.Addr())
		},
	}
}

// ParsePrefixes reads CIDR ranges and single addresses, as given to --probe-allow. Empty entries do not count.
func ParsePrefixes(list []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	var problems []error
	for _, entry := range list {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		prefix, err := parsePrefix(entry)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, errors.Join(problems...)
}

func parsePrefix(entry string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(entry); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(entry)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q must be an address or a range such as 10.0.0.0/8", entry)
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q must be written as an IPv4 range such as 10.0.0.0/8", entry)
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("%q has bits set behind the prefix: write %s", entry, prefix.Masked())
	}
	return prefix, nil
}
