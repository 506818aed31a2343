package probe

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestGuardDecidesByAddress(t *testing.T) {
	for _, tc := range []struct {
		kind    string
		refused bool
		addrs   string
	}{
		{"loopback", true, "127.0.0.1 127.0.0.2 127.255.255.254 127.1.2.3 ::1"},
		{"unspecified", true, "0.0.0.0 0.0.0.1 0.255.255.255 ::"},
		{"link-local", true, "169.254.0.1 169.254.1.1 169.254.255.255 fe80::1 fe80::a9fe:a9fe febf::1"},
		{"metadata services", true, "169.254.169.254 169.254.170.2 169.254.170.23 100.100.100.200 168.63.129.16 192.0.0.192 " +
			"fd00:ec2::254 fd00:ec2::23 fd20:ce::254"},
		{"multicast", true, "224.0.0.1 239.255.255.250 ff02::1 ff05::2 ffff::1"},
		{"broadcast and reserved", true, "255.255.255.255 240.0.0.1 254.1.1.1 fec0::1 100::1"},
		{"IPv4 mapped into IPv6", true, "::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:0.0.0.0 ::ffff:224.0.0.1 ::ffff:7f00:1"},
		{"IPv4-compatible IPv6", true, "::127.0.0.1 ::169.254.169.254 ::2"},
		{"IPv4-translated IPv6", true, "::ffff:0:127.0.0.1 ::ffff:0:169.254.169.254"},
		{"NAT64", true, "64:ff9b::127.0.0.1 64:ff9b::169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b:1::1 64:ff9b:1::169.254.169.254"},
		{"6to4 and Teredo", true, "2002:7f00:1::1 2002:a9fe:a9fe::1 2001:0:102:304::1"},
		{"zones", true, "fe80::1%eth0 2001:db8::1%lo fd00::1%1"},
		{"private networks", false, "10.0.0.1 10.96.0.10 10.255.255.255 172.16.0.1 172.31.255.254 192.168.0.1 192.168.255.254 fc00::1 fd00::1 " +
			"fd12:3456::1 100.64.0.1 100.127.255.254"},
		{"the Internet", false, "1.1.1.1 8.8.8.8 93.184.216.34 126.255.255.255 128.0.0.1 169.253.255.255 169.255.0.1 172.15.255.255 " +
			"172.32.0.1 223.255.255.255 2606:4700::1111 2a00:1450::1 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1"},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			for addr := range strings.FieldsSeq(tc.addrs) {
				err := Guard{}.Check(netip.MustParseAddr(addr))
				if (err != nil) != tc.refused {
					t.Errorf("%s: got %v, want refused: %t", addr, err, tc.refused)
				}
			}
		})
	}
	if err := (Guard{}).Check(netip.Addr{}); err == nil {
		t.Error("no address at all is allowed")
	}
}

func TestDenyBeatsAllowBeatsTheDefault(t *testing.T) {
	guard := Guard{
		Deny:      prefixes(t, "10.96.0.0/24", "127.0.0.1", "2001:db8::/32"),
		Allow:     prefixes(t, "127.0.0.0/8", "10.96.0.7", "10.97.0.2"),
		APIServer: prefixes(t, "10.97.0.1", "10.97.0.2"),
	}
	for _, tc := range []struct {
		addr    string
		refused bool
		why     string
	}{
		{"127.0.0.2", false, "allowed although refused by default"},
		{"::ffff:127.0.0.2", false, "the same address in another notation"},
		{"64:ff9b::127.0.0.2", true, "the allowance is for the address itself, not for a way to it"},
		{"127.0.0.1", true, "denied although allowed"},
		{"::ffff:127.0.0.1", true, "denied in another notation"},
		{"10.96.0.7", true, "denied although allowed"},
		{"10.96.0.1", true, "denied although private"},
		{"64:ff9b::10.96.0.1", true, "denied behind NAT64"},
		{"fd00::5efe:10.96.0.1", true, "denied behind ISATAP"},
		{"2001:db8::5", true, "denied"},
		{"10.97.0.1", true, "the API server"},
		{"64:ff9b::10.97.0.1", true, "the API server behind NAT64"},
		{"10.97.0.2", false, "the API server, allowed"},
		{"10.98.0.1", false, "neither"},
	} {
		if err := guard.Check(netip.MustParseAddr(tc.addr)); (err != nil) != tc.refused {
			t.Errorf("%s: got %v, want refused: %t (%s)", tc.addr, err, tc.refused, tc.why)
		}
	}
	if err := guard.Check(netip.MustParseAddr("127.0.0.1")); !strings.Contains(err.Error(), "--probe-deny") || strings.Contains(err.Error(), "--probe-allow") {
		t.Errorf("a denied address: %v", err)
	}
	for addr, refused := range map[string]bool{"10.98.0.1": true, "127.0.0.1": true, "127.0.0.2": false} {
		if err := guard.checkAPIServer(netip.MustParseAddr(addr)); (err != nil) != refused {
			t.Errorf("what a name of the API server resolves to, %s: got %v, want refused: %t", addr, err, refused)
		}
	}
}

func TestARefusedAddressNamesTheFlag(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1":        "--probe-allow=127.0.0.1/32",
		"::ffff:127.0.0.1": "--probe-allow=127.0.0.1/32",
		"fe80::1":          "--probe-allow=fe80::1/128",
	} {
		if err := (Guard{}).Check(netip.MustParseAddr(addr)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a text with %s", addr, err, want)
		}
	}
}

func FuzzGuardSeesThroughNotations(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{169, 254, 169, 254})
	f.Add([]byte{10, 0, 0, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) != 4 {
			return
		}
		plain := (Guard{}).Check(netip.AddrFrom4([4]byte(raw))) != nil
		for _, prefix := range []string{"::ffff:0.0.0.0", "64:ff9b::", "::ffff:0:0.0.0.0"} {
			notation := netip.MustParseAddr(prefix).As16()
			copy(notation[12:], raw)
			if got := (Guard{}).Check(netip.AddrFrom16(notation)) != nil; got != plain {
				t.Errorf("%s: refused: %t, but %v: %t", netip.AddrFrom16(notation), got, raw, plain)
			}
		}
	})
}

func TestParsePrefixes(t *testing.T) {
	for _, tc := range []struct {
		name, in, want, wantErr string
	}{
		{"nothing", "", "", ""},
		{"blanks between commas", " , 10.0.0.0/8 ,", "10.0.0.0/8", ""},
		{"single addresses", "10.96.0.1,::1", "10.96.0.1/32,::1/128", ""},
		{"a mapped address is the IPv4 address", "::ffff:10.0.0.1", "10.0.0.1/32", ""},
		{"everything", "0.0.0.0/0,::/0", "0.0.0.0/0,::/0", ""},
		{"a name is no range", "localhost", "", `"localhost" must be an address or a range`},
		{"a zone is no range", "fe80::1%eth0", "", "must be an address or a range"},
		{"bits behind the prefix are a mistake", "10.1.2.3/8", "", "write 10.0.0.0/8"},
		{"a mapped range would match nothing", "::ffff:10.0.0.0/104", "", "must be written as an IPv4 range"},
		{"one mistake does not hide another", "a,b", "", `"b" must be`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParsePrefixes(strings.Split(tc.in, ","))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("got error %v, want %q", err, tc.wantErr)
				}
				return
			}
			var texts []string
			for _, prefix := range got {
				texts = append(texts, prefix.String())
			}
			if diff := cmp.Diff(tc.want, strings.Join(texts, ","), cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestTransportRefusesWhatANameResolvesTo(t *testing.T) {
	reached := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer server.Close()
	byName := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	for _, url := range []string{server.URL, byName} {
		err := get(t, Guard{}.Transport(), url)
		if _, ok := errors.AsType[*AddressError](err); !ok {
			t.Errorf("%s: got %v, want an AddressError", url, err)
		}
	}
	if reached {
		t.Error("the server was reached")
	}
}

// On a machine without IPv6 an address of it is refused all the same: it is no tool that fails.
func TestAnAddressIsJudgedWhereThereIsNoWayToIt(t *testing.T) {
	for address, refused := range map[string]bool{"[::1]:80": true, "[fe80::1]:80": true, "[2606:4700::1111]:80": false} {
		conn, err := Guard{}.dial(t.Context(), "tcp4", address)
		if err == nil {
			_ = conn.Close()
		}
		if _, ok := errors.AsType[*AddressError](err); ok != refused {
			t.Errorf("%s: got %v, want refused: %t", address, err, refused)
		}
	}
}

func TestTransportIgnoresProxies(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	transport := Guard{Allow: prefixes(t, "127.0.0.0/8")}.transport()
	if transport.Proxy != nil {
		t.Error("the transport asks for a proxy")
	}
	if err := get(t, transport, "http://tool.invalid/"); err == nil {
		t.Error("a name that does not exist was answered")
	}
}

func prefixes(t *testing.T, list ...string) []netip.Prefix {
	t.Helper()
	parsed, err := ParsePrefixes(list)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func get(t *testing.T, transport http.RoundTripper, url string) error {
	t.Helper()
	response, err := (&http.Client{Transport: transport}).Get(url)
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}
