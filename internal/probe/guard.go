package probe

import (
	"context"
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
	// denied is true if --probe-deny lists the address, so that --probe-allow is of no use.
	denied bool
}

// Error names the address and the flag that would allow it.
func (e *AddressError) Error() string {
	said := fmt.Sprintf("connecting to %s (%s) is not allowed", e.Addr, e.Kind)
	if e.denied || !e.Addr.IsValid() || e.Addr.Zone() != "" {
		return said
	}
	return fmt.Sprintf("%s; if the tool really is there, start the manager with --probe-allow=%s", said, netip.PrefixFrom(e.Addr, e.Addr.BitLen()))
}

// Guard decides to which addresses the manager connects on behalf of a Tool or a recipe. It looks at the address that
// is really dialed, after the name was resolved, so that no name server can lead a probe elsewhere.
//
// Refused are this machine, the local link, cloud metadata services, multicast and reserved addresses, in every
// notation that IPv6 has for them, and whatever the API server's names resolve to. Private networks are allowed, and
// 100.64.0.0/10 with them: tools live in the cluster, and some clusters number their pods from there. The zero Guard
// does this.
type Guard struct {
	// Deny lists addresses that are refused whatever else is said here, also in another notation.
	Deny []netip.Prefix
	// Allow lists addresses that are allowed although they are refused by default. It beats all but Deny.
	Allow []netip.Prefix
	// APIServer lists the addresses of the Kubernetes API server, which are refused by default.
	APIServer []netip.Prefix

	resolver *net.Resolver // nil: the system's; tests bring their own
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
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "cloud metadata"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "cloud metadata"},
	{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), "cloud metadata"},
	{netip.MustParsePrefix("fd00:42::42/128"), "cloud metadata"},
	{netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"), "cloud metadata"},
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
	inner := embedded(addr)
	switch {
	case !addr.IsValid():
		return &AddressError{Addr: addr, Kind: "no IP address"}
	case addr.Zone() != "":
		return &AddressError{Addr: addr, Kind: "bound to a network interface"}
	case contains(g.Deny, addr) || contains(g.Deny, inner):
		return &AddressError{Addr: addr, Kind: "denied by --probe-deny", denied: true}
	case contains(g.Allow, addr):
		return nil
	case contains(g.APIServer, addr) || contains(g.APIServer, inner):
		return &AddressError{Addr: addr, Kind: kindAPIServer}
	}
	for _, candidate := range []netip.Addr{addr, inner} {
		for _, r := range refusals {
			if r.prefix.Contains(candidate) {
				return &AddressError{Addr: addr, Kind: r.kind}
			}
		}
	}
	return nil
}

// kindAPIServer is the kind of the API server's addresses.
const kindAPIServer = "the Kubernetes API server"

// checkAPIServer is Check for an address to which one of the API server's names was resolved.
func (g Guard) checkAPIServer(addr netip.Addr) error {
	if err := g.Check(addr); err != nil {
		return err
	}
	if contains(g.Allow, addr.Unmap()) {
		return nil
	}
	return &AddressError{Addr: addr.Unmap(), Kind: kindAPIServer}
}

// namesAPIServer reports whether every cluster has the API server under that name, whatever the cluster's domain.
func namesAPIServer(host string) bool {
	host = strings.TrimSuffix(lower(host), ".")
	return host == "kubernetes" || host == "kubernetes.default" || host == "kubernetes.default.svc" ||
		strings.HasPrefix(host, "kubernetes.default.svc.")
}

// embedded returns the IPv4 address that addr is another notation for, or a tunnel to, else an invalid address.
func embedded(addr netip.Addr) netip.Addr {
	bytes := addr.As16()
	for _, e := range embeddings {
		if e.prefix.Contains(addr) {
			return netip.AddrFrom4([4]byte(bytes[e.offset : e.offset+4]))
		}
	}
	// ISATAP (RFC 5214 §6.1): any prefix, then 0000:5efe or 0200:5efe, then the IPv4 address.
	if addr.Is6() && bytes[8]&^2 == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe {
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return netip.Addr{}
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Transport returns an HTTP transport that connects only where the guard allows, directly and never through a proxy:
// a proxy would resolve names itself. Certificates are verified. Each call returns a new one.
func (g Guard) Transport() http.RoundTripper { return answersOnly{g.transport()} }

func (g Guard) transport() *http.Transport {
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            g.dial,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: 1 << 20,
		MaxIdleConns:           16,
		IdleConnTimeout:        90 * time.Second,
	}
}

// answersOnly takes no switch of protocols for an answer: its body is the bare connection, which no deadline of a request
// ends, so that a server could hold its caller for ever.
type answersOnly struct{ http.RoundTripper }

// errSwitched means that a server switched to another protocol, which nobody had asked it to do.
var errSwitched = errors.New("the server switched protocols instead of answering (HTTP 101)")

// RoundTrip sends a request.
func (t answersOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusSwitchingProtocols {
		_ = response.Body.Close()
		return nil, errSwitched
	}
	return response, err
}

// dial connects to a host and port, if the guard lets it.
func (g Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	check := g.Check
	if namesAPIServer(host) {
		check = g.checkAPIServer
	}
	// An address that was written as one is judged before this machine finds that it has no way there.
	if addr, err := netip.ParseAddr(host); err == nil {
		if err := check(addr); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err} // as the dialer says it
		}
	}
	dialer := &net.Dialer{
		Timeout:  dialTimeout,
		Resolver: g.resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil {
				return &AddressError{Kind: "no IP address"}
			}
			return check(target.Addr())
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// ParsePrefixes reads CIDR ranges and single addresses, as given to --probe-allow and --probe-deny. Empty entries do not count.
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
