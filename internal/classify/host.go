package classify

import (
	"net"
	"net/netip"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// whichHost says which host failed: the one that the report names is compared with that of the tool's endpoint.
func whichHost(reported, endpoint string) v1alpha1.HostMatch {
	if reported == "" || endpoint == "" {
		return v1alpha1.HostUnknown
	}
	switch reported, endpoint = bareHost(reported), bareHost(endpoint); {
	case reported == "" || endpoint == "":
		return v1alpha1.HostUnknown
	case reported == endpoint || isShort(reported, endpoint) || isShort(endpoint, reported):
		return v1alpha1.HostEndpoint
	case isAddress(reported) != isAddress(endpoint):
		// Which address a name has is not known here.
		return v1alpha1.HostUnknown
	default:
		return v1alpha1.HostForeign
	}
}

// bareHost is a host in lower case, without what runtimes write around it: scheme, user, port, path, brackets and the
// root's dot. An address is in the one form that all its spellings have.
func bareHost(s string) string {
	s = strings.TrimSpace(s)
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
	}
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		s = s[:i]
	}
	s = s[strings.LastIndexByte(s, '@')+1:]
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if address, err := netip.ParseAddr(s); err == nil {
		return address.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(s, "."))
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// isShort reports whether a name is what is written inside a cluster for a longer one, as tool or
// tool.default.svc for tool.default.svc.cluster.local: the resolver completes it.
func isShort(short, long string) bool {
	rest, ok := strings.CutPrefix(long, short+".")
	if !ok {
		return false
	}
	return !strings.Contains(short, ".") || rest == "svc" || strings.HasPrefix(rest, "svc.") ||
		strings.HasSuffix(short, ".svc")
}

// hostAgrees reports whether a selector holds for a host. An unknown host counts as the endpoint.
func hostAgrees(want, got v1alpha1.HostMatch) bool {
	return want == got || want == v1alpha1.HostEndpoint && got == v1alpha1.HostUnknown
}
