package probe

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// hostile are targets that a Tool may name and that no probe may reach, by why: a part of the reason that must be given.
var hostile = []struct {
	kind, why, targets string
}{
	{"this machine", "loopback", "http://127.0.0.1/ http://127.0.0.1:1/ http://127.0.0.1:65535/x https://127.0.0.1/ http://127.0.0.2:8080/ " +
		"http://127.1.2.3/ http://127.255.255.254/ http://[::1]/ http://[::1]:8081/metrics https://[0:0:0:0:0:0:0:1]/ http://[0000::0001]/"},
	{"this machine by name", "loopback", "http://localhost/ http://LOCALHOST:8080/ http://localhost./"},
	{"no address", "unspecified", "http://0.0.0.0/ http://0.0.0.0:8080/ http://0.0.0.1/ http://0.255.255.255/ http://[::]/ http://[::]:6443/ http://[0:0:0:0:0:0:0:0]/"},
	{"the local link", "link-local", "http://169.254.0.1/ http://169.254.1.1:80/ http://169.254.255.255/ http://[fe80::1]/ http://[fe80::a9fe:a9fe]/ " +
		"http://[febf:ffff::1]:8080/ https://[fe90::1]/"},
	{"metadata of AWS", "metadata", "http://169.254.169.254/latest/meta-data/ http://169.254.169.254:80/latest/api/token http://169.254.170.2/v2/credentials " +
		"http://169.254.170.23/v1/credentials http://169.254.169.253/ http://169.254.169.123/ http://[fd00:ec2::254]/latest/meta-data/ http://[fd00:ec2::23]/ http://[FD00:EC2:0:0:0:0:0:254]/"},
	{"metadata of GCP", "metadata", "http://169.254.169.254/computeMetadata/v1/ http://[fd20:ce::254]/computeMetadata/v1/ http://169.254.169.252:988/"},
	{"metadata of Azure", "metadata", "http://169.254.169.254/metadata/instance?api-version=2021-02-01 http://168.63.129.16/ http://168.63.129.16:32526/vmSettings https://168.63.129.16/machine"},
	{"metadata of Alibaba", "metadata", "http://100.100.100.200/latest/meta-data/ http://100.100.100.200:80/ https://100.100.100.200/"},
	{"metadata of OCI", "metadata", "http://169.254.169.254/opc/v2/instance/ http://192.0.0.192/latest/ http://[fd00:c1::a9fe:a9fe]/opc/v2/"},
	{"metadata of others", "metadata", "http://169.254.169.254/metadata/v1.json http://169.254.42.42/conf http://169.254.0.23/ http://[fd00:42::42]/conf http://[fd00:a9fe:a9fe::1]/v1/"},
	{"many machines", "multicast", "http://224.0.0.1/ http://239.255.255.250:1900/ http://232.1.1.1/ http://[ff02::1]/ http://[ff02::fb]:5353/ http://[ff05::2]/ http://[ff0e::1]/"},
	{"all machines, and nobody", "reserved, broadcast", "http://255.255.255.255/ http://240.0.0.1/ http://254.1.1.1/ http://250.0.0.1:8080/"},
	{"withdrawn and discarded", "not allowed", "http://[fec0::1]/ http://[feff::1]/ http://[100::1]/ http://192.0.0.8/ http://192.0.0.170/"},
	{"IPv4 mapped into IPv6: this machine", "loopback", "http://[::ffff:127.0.0.1]/ http://[::ffff:7f00:1]/ http://[0:0:0:0:0:ffff:127.0.0.1]/ http://[::FFFF:127.1.2.3]:8080/ http://[0:0:0:0:0:FFFF:7F00:0001]/"},
	{"IPv4 mapped into IPv6: others", "not allowed", "http://[::ffff:169.254.169.254]/ http://[::ffff:a9fe:a9fe]/ http://[::ffff:0.0.0.0]/ http://[::ffff:224.0.0.1]/ http://[::ffff:168.63.129.16]/ " +
		"http://[::ffff:100.100.100.200]/ http://[::ffff:255.255.255.255]/"},
	{"IPv4-compatible IPv6", "not allowed", "http://[::127.0.0.1]/ http://[::7f00:1]/ http://[::169.254.169.254]/ http://[::a9fe:a9fe]/ http://[::2]/ http://[::224.0.0.1]/ http://[::168.63.129.16]/"},
	{"IPv4-translated IPv6", "not allowed", "http://[::ffff:0:127.0.0.1]/ http://[::ffff:0:7f00:1]/ http://[::ffff:0:169.254.169.254]/ http://[::ffff:0:100.100.100.200]/"},
	{"NAT64 of the Internet", "not allowed", "http://[64:ff9b::127.0.0.1]/ http://[64:ff9b::7f00:1]/ http://[64:ff9b::169.254.169.254]/ http://[64:ff9b::a9fe:a9fe]/ http://[64:ff9b::0.0.0.0]/ " +
		"http://[64:ff9b::224.0.0.1]/ http://[64:ff9b::168.63.129.16]/ http://[64:ff9b::100.100.100.200]/ http://[64:ff9b:0:0:0:0:a9fe:a9fe]/"},
	{"NAT64 of a network", "local IPv4 translation", "http://[64:ff9b:1::127.0.0.1]/ http://[64:ff9b:1::169.254.169.254]/ http://[64:ff9b:1:a9fe:a9:fe00::]/ http://[64:ff9b:1:ffff::10.0.0.1]/ http://[64:ff9b:1::1]/"},
	{"6to4", "not allowed", "http://[2002:7f00:1::]/ http://[2002:7f00:1::1]/ http://[2002:a9fe:a9fe::1]/ http://[2002:a83f:8110::1]/ http://[2002:6464:64c8::1]/ http://[2002:e000:1::1]/ http://[2002:0:0::1]/"},
	{"Teredo", "Teredo", "http://[2001::1]/ http://[2001:0:102:304::1]/ http://[2001:0:7f00:1::1]/ http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/ http://[2001:0:a9fe:a9fe::5601:5601]/"},
	{"ISATAP", "not allowed", "http://[2001:db8::5efe:127.0.0.1]/ http://[fd00::5efe:a9fe:a9fe]/ http://[fd00::200:5efe:169.254.169.254]/ http://[2606:4700::200:5efe:7f00:1]/ http://[fc00:1:2:3:0:5efe:168.63.129.16]/"},
	{"zones", "bound to a network interface", "http://[fe80::1%25eth0]/ http://[fe80::1%25lo]:8080/ http://[fe80::a9fe:a9fe%251]/ http://[::1%25lo]/ http://[fd00::1%25eth0]/ http://[ff02::1%25eth0]/"},
	{"decimal hosts", "usual form", "http://2130706433/ http://2852039166/latest/ http://0/ http://1/ http://3232235777/ http://4294967295:80/ http://0002130706433/"},
	{"hexadecimal hosts", "usual form", "http://0x7f000001/ http://0x7f.1/ http://0x7f.0x0.0x0.0x1/ http://0xa9fea9fe/ http://0xA9.0xFE.0xA9.0xFE/ http://0X7F.0.0.0X1/ http://0x/ http://127.0.0.0x1/"},
	{"octal hosts", "usual form", "http://0177.0.0.1/ http://0177.0.0.01/ http://017700000001/ http://0251.0376.0251.0376/ http://127.0.0.01/ http://127.000.000.001/ http://00.0.0.0/"},
	{"short hosts", "usual form", "http://127.1/ http://127.0.1/ http://169.254.43518/ http://169.16689662/ http://127.1:8080/ http://10.1/"},
	{"long and broken hosts", "usual form", "http://127.0.0.1.1/ http://1.2.3.4.5/ http://256.0.0.1/ http://127.0.0.256/ http://a..b/ http://.127.0.0.1/ http://127..1/ http://../"},
	{"addresses with a dot behind", "usual form", "http://127.0.0.1./ http://169.254.169.254./latest/ http://2130706433./ http://0x7f.1./ http://127.1./"},
	{"digits of other scripts", "usual form", "http://１２７.0.0.1/ http://①②⑦.0.0.1/ http://١٢٧.0.0.1/ http://127.0.0.¹/ http://169.254.169.２５４/ http://𝟏𝟐𝟕.𝟎.𝟎.𝟏/"},
	{"dots of other scripts", "usual form", "http://127。0。0。1/ http://127．0．0．1/ http://127｡0｡0｡1/ http://169。254。169。254/ http://127%E3%80%820%E3%80%820%E3%80%821/"},
	{"letters of other scripts", "usual form", "http://ｌocalhost/ http://loc\u0430lhost/ http://localho\u017ft/ http://loca\u00adlhost/ http://\u200blocalhost/ http://ⓛocalhost/ http://\u212aubernetes.default/"},
	{"encoded hosts", "must be an address", "http://%31%32%37.0.0.1/ http://%31%EF%BC%8E1/ http://127%2e0%2e0%2e1/ http://%6cocalhost/ http://127.0.0.1%00.example/ http://127.0.0.1%2f.example/ http://tool.example%40127.0.0.1/"},
	{"users and passwords", "must not hold a user", "http://good@127.0.0.1/ http://a@b@127.0.0.1/ http://good:80@127.0.0.1/ http://tool.example@169.254.169.254/ http://tool.example:443@[::1]/ http://:@127.0.0.1/ http://@127.0.0.1/ " +
		"http://a:b@tool.example/ http://tool.example%2f@127.0.0.1/"},
	{"parsers that differ", "must be an address", `http://tool.example\@127.0.0.1/ http://127.0.0.1\@tool.example/ http://[127.0.0.1]\@x/ http://[::1 http://[::1]x/ http://::1/ http:///127.0.0.1/ ` +
		`http:/127.0.0.1/ http:127.0.0.1/ //127.0.0.1/ 127.0.0.1:80 http://#@127.0.0.1/ http://?@127.0.0.1/`},
	{"brackets around what is no IPv6 address", "must be an address", "http://[localhost]/ http://[tool.example]/ http://[]/ http://[127.0.0.1]x/ http://tool.example|127.0.0.1/ http://{host}/ http://^/"},
	{"names with signs", "usual form", "http://tool,example/ http://$HOSTNAME/ http://tool;127.0.0.1/ http://tool=127.0.0.1/ http://127.0.0.1!/ http://*/ http://tool'/ http://~/"},
	{"other schemes", "must be an address", "file:///etc/passwd gopher://127.0.0.1:6379/_INFO ftp://127.0.0.1/ dict://127.0.0.1:11211/stat unix:///run/containerd.sock ws://127.0.0.1/ data:,x " +
		"javascript:1 ldap://127.0.0.1/ jar:http://127.0.0.1!/ netdoc:///etc/passwd"},
	{"ports that are none", "port", "http://10.0.0.1:0/ http://10.0.0.1:65536/ http://10.0.0.1:99999/ http://10.0.0.1:4294967376/ http://10.0.0.1:00000/ http://10.0.0.1:18446744073709551696/"},
	{"ports by name or sign", "must be an address", "http://10.0.0.1:http/ http://10.0.0.1:-80/ http://10.0.0.1:+80/ http://10.0.0.1:80:80/ http://10.0.0.1:8０/ http://10.0.0.1:0x50/"},
	{"the API server's address", "the Kubernetes API server", "https://10.96.0.1/ https://10.96.0.1:443/api/v1/secrets http://10.96.0.1:6443/ https://[::ffff:10.96.0.1]/ https://[64:ff9b::10.96.0.1]/ " +
		"https://[2002:a60:1::1]/ https://[::10.96.0.1]/ https://[fd00::5efe:10.96.0.1]/ https://[fd00:96::1]/ https://203.0.113.7:6443/"},
	{"the API server's names", "the Kubernetes API server", "https://kubernetes/ https://kubernetes.default/ https://kubernetes.default.svc/api https://kubernetes.default.svc.cluster.local/ https://KUBERNETES.Default.svc:443/ " +
		"https://kubernetes.default.svc.cluster.local./ https://kubernetes.default.svc.prod.example/ https://kubernetes./ https://Kubernetes.default./"},
	{"names of this machine", "loopback", "http://loopback.evil.example/ http://loopback6.evil.example/ http://127.0.0.1.evil.example/ http://mapped.evil.example/ http://app.localhost/"},
	{"names of metadata", "metadata", "http://metadata.google.internal/computeMetadata/v1/ http://metadata/ http://instance-data/latest/ http://ec2v6.evil.example/ http://alibaba.evil.example/ http://wire.evil.example/ http://169-254-169-254.evil.example/"},
	{"names of the rest", "not allowed", "http://unspecified.evil.example/ http://linklocal.evil.example/ http://multicast.evil.example/ http://broadcast.evil.example/ http://nat64.evil.example/ " +
		"http://sixtofour.evil.example/ http://teredo.evil.example/ http://isatap.evil.example/ http://many-bad.evil.example/"},
	{"aliases", "not allowed", "http://alias.evil.example/ http://chain.evil.example/ http://to-localhost.evil.example/ http://alias-metadata.evil.example/"},
	{"aliases of the API server", "the Kubernetes API server", "https://alias-api.evil.example/ https://chain-api.evil.example:6443/"},
}

// hostileZone is what the names among them resolve to.
func hostileZone() *zone {
	api := []string{"10.97.0.9"} // as in a cluster whose API server the manager reaches elsewhere
	return &zone{rounds: map[string][]string{
		"kubernetes": api, "kubernetes.default": api, "kubernetes.default.svc": api, "kubernetes.default.svc.cluster.local": api,
		"kubernetes.default.svc.prod.example": api,
		"loopback.evil.example":               {"127.0.0.1"}, "loopback6.evil.example": {"::1"}, "127.0.0.1.evil.example": {"127.0.0.1"},
		"localhost": {"127.0.0.1"}, "mapped.evil.example": {"::ffff:127.0.0.1"}, "app.localhost": {"127.0.0.1"},
		"metadata.google.internal": {"169.254.169.254"}, "metadata": {"169.254.169.254"}, "instance-data": {"169.254.169.254"},
		"ec2v6.evil.example": {"fd00:ec2::254"}, "alibaba.evil.example": {"100.100.100.200"}, "wire.evil.example": {"168.63.129.16"},
		"169-254-169-254.evil.example": {"169.254.169.254"},
		"unspecified.evil.example":     {"0.0.0.0"}, "linklocal.evil.example": {"fe80::1"}, "multicast.evil.example": {"224.0.0.1"},
		"broadcast.evil.example": {"255.255.255.255"}, "nat64.evil.example": {"64:ff9b::7f00:1"}, "sixtofour.evil.example": {"2002:7f00:1::1"},
		"teredo.evil.example": {"2001:0:7f00:1::1"}, "isatap.evil.example": {"fd00::5efe:7f00:1"},
		"many-bad.evil.example":       {"127.0.0.1 169.254.169.254 ::1 fe80::1 0.0.0.0"},
		"alias.evil.example":          {"good.example. 127.0.0.1"},
		"chain.evil.example":          {"a.good.example. b.good.example. c.good.example. d.good.example. 169.254.169.254"},
		"to-localhost.evil.example":   {"localhost. 127.0.0.1"},
		"alias-metadata.evil.example": {"metadata.google.internal. 169.254.169.254"},
		"alias-api.evil.example":      {"kubernetes.default.svc.cluster.local. 10.96.0.1"},
		"chain-api.evil.example":      {"a.example. kubernetes.default.svc.cluster.local. 10.96.0.1"},
	}}
}

func TestHostileTargetsAreBlocked(t *testing.T) {
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, proxy)
	}
	t.Setenv("NO_PROXY", "")
	guard := Guard{APIServer: prefixes(t, "10.96.0.1", "fd00:96::1", "203.0.113.7"), resolver: hostileZone().resolver(t)}
	prober := New(Options{Guard: guard})
	total := 0
	for _, tc := range hostile {
		t.Run(tc.kind, func(t *testing.T) {
			for target := range strings.FieldsSeq(tc.targets) {
				total++
				for _, tool := range []*v1alpha1.Tool{httpTool(target), mcpTool(target)} {
					if got := blocked(t, prober, tool); !strings.Contains(got, tc.why) {
						t.Errorf("%s: got %q, want %q in it", target, got, tc.why)
					}
				}
			}
		})
	}
	if total < 200 {
		t.Errorf("only %d targets were tried", total)
	}
	t.Logf("%d targets of %d kinds", total, len(hostile))
}

// blocked returns why a tool was not reached.
func blocked(t *testing.T, prober *Prober, tool *v1alpha1.Tool) string {
	t.Helper()
	target, err := TargetOf(tool)
	if err != nil {
		return err.Error()
	}
	result := prober.Probe(t.Context(), target, system, target.Input)
	if result.Possible || result.Error != nil {
		return fmt.Sprintf("it was tried: %+v %+v", result, result.Error)
	}
	return result.Impossible
}

// listenAt serves handler on an address of this machine.
func listenAt(t *testing.T, address string, handler http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// TestNamesThatChange: a name is checked at every connection, by the address to which that goes.
func TestNamesThatChange(t *testing.T) {
	var good, bad atomic.Int32
	at := listenAt(t, "127.0.0.2:0", func(http.ResponseWriter, *http.Request) { good.Add(1) })
	_, port, _ := net.SplitHostPort(at)
	listenAt(t, "127.0.0.3:"+port, func(http.ResponseWriter, *http.Request) { bad.Add(1) })
	for _, tc := range []struct {
		name   string
		rounds []string
		want   string // one letter for each probe: g for the good address, b for blocked
	}{
		{"good, then bad for ever", []string{"127.0.0.2", "127.0.0.3"}, "gbb"},
		{"bad, then good", []string{"127.0.0.3", "127.0.0.2"}, "bgg"},
		{"to and fro", []string{"127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3"}, "gbgb"},
		{"a bad one before a good one is passed over", []string{"127.0.0.3 127.0.0.2"}, "gg"},
		{"a bad one behind a good one is not needed", []string{"127.0.0.2 127.0.0.3"}, "gg"},
		{"only bad ones", []string{"127.0.0.3 ::ffff:127.0.0.3 ::1"}, "bb"},
		{"an alias that turns bad", []string{"a.example. 127.0.0.2", "a.example. 127.0.0.3"}, "gb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			z := &zone{rounds: map[string][]string{"tool.example": tc.rounds}}
			prober := New(Options{Guard: Guard{Allow: prefixes(t, "127.0.0.2"), resolver: z.resolver(t)}})
			target := target(t, httpTool("http://tool.example:"+port))
			got := ""
			for range len(tc.want) {
				switch result := prober.Probe(t.Context(), target, system, Input{}); {
				case result.Success:
					got += "g"
				case !result.Possible && strings.Contains(result.Impossible, "loopback"):
					got += "b"
				default:
					t.Errorf("got %+v %+v", result, result.Error)
				}
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	if bad.Load() != 0 || good.Load() == 0 {
		t.Errorf("the good server was reached %d times, the bad one %d times", good.Load(), bad.Load())
	}
}

// TestRedirectsLeadNowhere: to whatever class of address, by whatever status, also for the token's sake.
func TestRedirectsLeadNowhere(t *testing.T) {
	var reached atomic.Int32
	trap := listenAt(t, "127.0.0.4:0", func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	locations := strings.Fields("http://" + trap + "/ //" + trap + "/x http://localhost/ http://[::1]/ http://0.0.0.0/ http://169.254.169.254/latest/meta-data/ " +
		"http://[fd00:ec2::254]/ http://100.100.100.200/ http://168.63.129.16/ http://[::ffff:127.0.0.1]/ http://[64:ff9b::7f00:1]/ http://2130706433/ http://127.1/ " +
		"https://10.96.0.1/ https://kubernetes.default.svc/ http://good@127.0.0.1/ file:///etc/passwd gopher://127.0.0.1/ http://10.0.0.1/ /same-host")
	tried := 0
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
		for _, location := range locations {
			tried++
			at := listenAt(t, "127.0.0.2:0", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					reached.Add(1)
				}
				w.Header().Set("Location", location)
				w.Header().Set("Refresh", "0; url="+location)
				w.WriteHeader(status)
			})
			prober := New(Options{Guard: Guard{Allow: prefixes(t, "127.0.0.2", "127.0.0.4")}})
			id := Identity{As: v1alpha1.ProbeAsUser, Credential: &Credential{Token: token, Hosts: []string{"127.0.0.2"}}}
			for kind, tool := range map[string]*v1alpha1.Tool{"http": httpTool("http://" + at + "/"), "mcp": mcpTool("http://" + at + "/")} {
				target := target(t, tool)
				got := prober.Probe(t.Context(), target, id, target.Input)
				if got.Success || !got.Possible || got.StatusCode != status {
					t.Errorf("%d to %s over %s: got %+v", status, location, kind, got)
				}
			}
		}
	}
	if reached.Load() != 0 {
		t.Errorf("redirects were followed %d times", reached.Load())
	}
	t.Logf("%d redirects", tried)
}

// TestPrivateNetworksAreAllowed, as tools live there; and so is what shares the carriers' range, 100.64.0.0/10, except for
// the metadata service in it.
func TestPrivateNetworksAreAllowed(t *testing.T) {
	for addr := range strings.FieldsSeq("10.0.0.1 10.255.255.254 172.16.0.1 172.31.255.254 192.168.0.1 192.168.255.254 fc00::1 fd00::2 fdff::1 " +
		"100.64.0.1 100.100.100.199 100.100.100.201 100.127.255.254 ::ffff:10.0.0.1 64:ff9b::10.0.0.1 fd00::5efe:10.0.0.1") {
		if err := (Guard{}).Check(netip.MustParseAddr(addr)); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
