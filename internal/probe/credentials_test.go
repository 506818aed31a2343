package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

const namespace = "project"

func secret(name string, kind corev1.SecretType, data ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: kind, Data: map[string][]byte{}}
	for i := 0; i+1 < len(data); i += 2 {
		s.Data[data[i]] = []byte(data[i+1])
	}
	return s
}

// reader returns a reader of the Secrets; with an error, nothing but that.
func reader(t *testing.T, err error, secrets ...client.Object) Credentials {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(secrets...)
	if err != nil {
		builder = builder.WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return err
			},
		})
	}
	return Credentials{Reader: builder.Build()}
}

func TestUserCredential(t *testing.T) {
	wide := "agrajag-user-" + tenancy.Hash12("alice")
	narrow := wide + "-" + tenancy.Hash12("library")
	good := func(name, token string) *corev1.Secret {
		return secret(name, SecretTypeUser, "token", token, "hosts", " api.example, b.example:8443 ,")
	}
	hosts := []string{"api.example", "b.example:8443"}
	for _, tc := range []struct {
		name     string
		user     string
		secrets  []client.Object
		err      error // of the API server
		want     *Credential
		wantErr  error
		wantText string
	}{
		{"the user's", "alice", []client.Object{good(wide, "wide\n")}, nil, &Credential{"wide", hosts}, nil, ""},
		{"the narrower name wins", "alice", []client.Object{good(wide, "wide"), good(narrow, "narrow")}, nil, &Credential{"narrow", hosts}, nil, ""},
		{"another user's is not taken", "bob", []client.Object{good(wide, "wide")}, nil, nil, ErrCredentialNotFound, "agrajag-user-" + tenancy.Hash12("bob")},
		{"none says how to create one", "alice", nil, nil, nil, ErrCredentialNotFound, narrow},
		{"nobody has none", "", []client.Object{good(wide, "wide")}, nil, nil, ErrCredentialNotFound, "no user"},
		{"the system is nobody", tenancy.SystemUser, nil, nil, nil, ErrCredentialNotFound, "no user"},
		{"a narrower one that is wrong is not passed over", "alice", []client.Object{good(wide, "wide"), secret(narrow, "Opaque")}, nil, nil, ErrCredentialNotAllowed, "create it anew with the type tools.agrajag.dev/user-credential"},
		{"a system credential is no user's", "alice", []client.Object{secret(wide, SecretTypeSystem, "token", "t", "hosts", "h")}, nil, nil, ErrCredentialNotAllowed, string(SecretTypeUser)},
		{"without hosts it may go nowhere", "alice", []client.Object{secret(wide, SecretTypeUser, "token", "t")}, nil, nil, ErrCredentialNotAllowed, "data.hosts"},
		{"with commas alone, neither", "alice", []client.Object{secret(wide, SecretTypeUser, "token", "t", "hosts", " , ,")}, nil, nil, ErrCredentialNotAllowed, "data.hosts"},
		{"without token", "alice", []client.Object{secret(wide, SecretTypeUser, "token", " \n", "hosts", "h")}, nil, nil, ErrCredentialNotAllowed, "data.token"},
		{"a token that would end the header", "alice", []client.Object{secret(wide, SecretTypeUser, "token", "a\r\nb", "hosts", "h")}, nil, nil, ErrCredentialNotAllowed, "data.token"},
		{"not readable says what to create", "alice", nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, wide, nil), nil, ErrCredentialNotReadable, "config/samples/credential-access.yaml"},
		{"another fault stays what it is", "alice", nil, context.DeadlineExceeded, nil, context.DeadlineExceeded, "reading Secret"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := reader(t, tc.err, tc.secrets...).User(t.Context(), namespace, tc.user, "library")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if !errors.Is(err, tc.wantErr) || err != nil && !strings.Contains(err.Error(), tc.wantText) {
				t.Errorf("got %v, want %v with %q", err, tc.wantErr, tc.wantText)
			}
		})
	}
}

func TestASecretThatCannotBeReadForAMomentIsReadAgain(t *testing.T) {
	name := "agrajag-user-" + tenancy.Hash12("alice")
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	failures := 2
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret(name, SecretTypeUser, "token", "t", "hosts", "h")).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, out client.Object, o ...client.GetOption) error {
			if failures--; failures >= 0 {
				return apierrors.NewTimeoutError("busy", 1)
			}
			return c.Get(ctx, key, out, o...)
		}}).Build()
	if got, err := (Credentials{Reader: c}).User(t.Context(), namespace, "alice", "library"); err != nil || got.Token != "t" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestSystemCredential(t *testing.T) {
	credentials := reader(t, nil,
		secret("good", SecretTypeSystem, "token", "t", "hosts", "h"),
		secret("user", SecretTypeUser, "token", "t", "hosts", "h"),
		secret("tls", corev1.SecretTypeTLS, "tls.key", "k"))
	for name, want := range map[string]error{"good": nil, "user": ErrCredentialNotAllowed, "tls": ErrCredentialNotAllowed, "none": ErrCredentialNotFound} {
		if _, err := credentials.System(t.Context(), namespace, name); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}

func TestModelCredential(t *testing.T) {
	credentials := reader(t, nil,
		secret("good", SecretTypeModel, "apiKey", "key\n", "endpoint", "https://models.example/v1"),
		secret("keyless", SecretTypeModel, "endpoint", "https://models.example/v1"),
		secret("homeless", SecretTypeModel, "apiKey", "key"),
		secret("local", SecretTypeModel, "apiKey", "key", "endpoint", "file:///etc"),
		secret("user", SecretTypeUser, "token", "t", "hosts", "h"))
	key, endpoint, err := credentials.Model(t.Context(), namespace, "good")
	if key != "key" || endpoint != "https://models.example/v1" || err != nil {
		t.Errorf("got %q, %q, %v", key, endpoint, err)
	}
	for name, want := range map[string]error{
		"keyless": ErrCredentialNotAllowed, "homeless": ErrCredentialNotAllowed, "local": ErrCredentialNotAllowed,
		"user": ErrCredentialNotAllowed, "none": ErrCredentialNotFound,
	} {
		key, endpoint, err := credentials.Model(t.Context(), namespace, name)
		if !errors.Is(err, want) || key != "" || endpoint != "" {
			t.Errorf("%s: got %q, %q, %v, want %v", name, key, endpoint, err, want)
		}
	}
}

func TestACredentialGoesOnlyToItsHosts(t *testing.T) {
	for _, tc := range []struct {
		kind, hosts, url string
		want             bool
	}{
		{"the host", "api.example", "https://api.example/v1", true},
		{"one of several", "a.example,api.example", "https://api.example/", true},
		{"none of several", "a.example,b.example", "https://api.example/", false},
		{"white space around", " a.example , api.example\t", "https://api.example/", true},
		{"empty entries", ",,", "https://api.example/", false},
		{"case of the address", "api.example", "https://API.Example/v1", true},
		{"case of the Secret", "API.Example", "https://api.example/v1", true},
		{"no case but that of ASCII", "api.\u212axample", "https://api.kxample/", false},
		{"any port", "api.example", "https://api.example:8443/v1", true},
		{"the scheme's port", "api.example:443", "https://api.example/v1", true},
		{"the scheme's port, written twice", "api.example:443", "https://api.example:443/v1", true},
		{"the other scheme's port", "api.example:443", "http://api.example/v1", false},
		{"the port of http", "api.example:80", "http://api.example/v1", true},
		{"another port", "api.example:8443", "https://api.example/v1", false},
		{"a port that begins alike", "api.example:80", "http://api.example:8080/", false},
		{"a port with zeros", "api.example:443", "https://api.example:0443/", false},
		{"a port by name", "api.example:https", "https://api.example/", false},
		{"a port without number", "api.example:", "https://api.example/", false},
		{"below the host", "api.example", "https://sub.api.example/", false},
		{"above the host", "api.example", "https://example/", false},
		{"behind the host", "api.example", "https://api.example.evil/", false},
		{"before the host", "api.example", "https://evil-api.example/", false},
		{"the host in the path", "api.example", "https://evil/api.example", false},
		{"the host in the query", "api.example", "https://evil/?api.example", false},
		{"the host in the fragment", "api.example", "https://evil/#api.example", false},
		{"a dot behind the address", "api.example", "https://api.example./", false},
		{"a dot behind the entry", "api.example.", "https://api.example/", false},
		{"a dot behind both", "api.example.", "https://api.example./", true},
		{"a wildcard", "*.example", "https://api.example/", false},
		{"a wildcard alone", "*", "https://api.example/", false},
		{"a suffix", ".example", "https://api.example/", false},
		{"a pattern", "api.exampl?", "https://api.example/", false},
		{"an address is no host", "https://api.example", "https://api.example/", false},
		{"a path is no host", "api.example/v1", "https://api.example/v1", false},
		{"a user is no host", "good@api.example", "https://api.example/", false},
		{"an international name in ASCII", "xn--bcher-kva.example", "https://xn--bcher-kva.example/", true},
		{"an international name in the Secret", "b\u00fccher.example", "https://xn--bcher-kva.example/", false},
		{"a letter that looks alike", "\u0430pi.example", "https://api.example/", false},
		{"IPv6", "::1", "http://[::1]:8080/", true},
		{"IPv6 in brackets", "[::1]", "http://[::1]:8080/", true},
		{"IPv6 with its port", "[::1]:8080", "http://[::1]:8080/", true},
		{"IPv6 with another port", "[::1]:8081", "http://[::1]:8080/", false},
		{"IPv6 written at length", "::1", "http://[0:0:0:0:0:0:0:1]/", false},
		{"IPv4 with its port", "127.0.0.1:8080", "http://127.0.0.1:8080/", true},
		{"IPv4 mapped into IPv6", "127.0.0.1", "http://[::ffff:127.0.0.1]/", false},
		{"a range", "127.0.0.0/8", "http://127.0.0.1/", false},
		{"the name of an address", "localhost", "http://127.0.0.1/", false},
		{"the address of a name", "127.0.0.1", "http://localhost/", false},
	} {
		credential := Credential{Token: "t", Hosts: strings.Split(tc.hosts, ",")}
		err := credential.Check(target(t, httpTool(tc.url)))
		if (err == nil) != tc.want || err != nil && !errors.Is(err, ErrCredentialNotAllowed) {
			t.Errorf("%s: %s to %s: got %v, want allowed: %t", tc.kind, tc.hosts, tc.url, err, tc.want)
		}
	}
	for _, token := range []string{"", "a\nb", "a\x00"} {
		if err := (Credential{Token: token, Hosts: []string{"h"}}).Check(target(t, httpTool("http://h"))); !errors.Is(err, ErrCredentialNotAllowed) {
			t.Errorf("token %q: got %v", token, err)
		}
	}
}

// TestATokenArrivesOnlyWhereItMayGo watches what servers get. All names lead to one server, as an attacker's would.
func TestATokenArrivesOnlyWhereItMayGo(t *testing.T) {
	var got atomic.Value
	at := listenAt(t, "127.0.0.2:0", func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Host + " " + r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	})
	_, port, _ := net.SplitHostPort(at)
	here := []string{"127.0.0.2"}
	z := &zone{rounds: map[string][]string{"api.example": here, "evil.example": here, "api.example.evil": here, "xn--bcher-kva.example": here}}
	prober := New(Options{Guard: Guard{Allow: prefixes(t, "127.0.0.2"), resolver: z.resolver(t)}})
	for _, tc := range []struct {
		hosts, host string
		want        bool
	}{
		{"api.example", "api.example", true},
		{"api.example:" + port, "API.EXAMPLE", true},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", true},
		{"127.0.0.2", "127.0.0.2", true},
		{"api.example", "evil.example", false},
		{"api.example", "api.example.evil", false},
		{"api.example:1", "api.example", false},
		{"*.example", "evil.example", false},
		{"127.0.0.2", "evil.example", false},
	} {
		for _, tool := range []*v1alpha1.Tool{httpTool("http://" + tc.host + ":" + port), mcpTool("http://" + tc.host + ":" + port)} {
			got.Store("")
			target := target(t, tool)
			id := Identity{As: v1alpha1.ProbeAsUser, Credential: &Credential{Token: token, Hosts: []string{tc.hosts}}}
			result := prober.Probe(t.Context(), target, id, target.Input)
			if said := got.Load().(string); strings.Contains(said, token) != tc.want || result.Possible != tc.want || !tc.want && said != "" {
				t.Errorf("%s to %s: the server got %q, the result is %+v", tc.hosts, tc.host, said, result)
			}
		}
	}
}

func TestACredentialIsNeverShown(t *testing.T) {
	const token = "s3cr3t-token"
	credential := Credential{Token: token, Hosts: []string{"api.example"}}
	identity := Identity{As: "user", Credential: &credential}
	var shown strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%t"} {
		fmt.Fprintf(&shown, verb+verb+verb+verb, credential, &credential, identity, []Credential{credential})
	}
	for _, value := range []any{credential, &credential, identity, map[string]any{"c": credential}} {
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(encoded)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "c", credential, "p", &credential, "i", identity)
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "c", credential, "p", &credential, "i", identity)
	shown.Write(log.Bytes())
	for _, form := range []string{token, fmt.Sprintf("%x", token), fmt.Sprintf("%X", token)} {
		if strings.Contains(shown.String(), form) {
			t.Errorf("the token is shown: %s", shown.String())
		}
	}
	if !strings.Contains(shown.String(), "api.example") {
		t.Error("the hosts are not shown")
	}
}
