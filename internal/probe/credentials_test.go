package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
		hosts, url string
		want       bool
	}{
		{"api.example", "https://api.example/v1", true},
		{"api.example", "https://API.Example/v1", true},
		{"API.Example", "https://api.example/v1", true},
		{"api.example", "https://api.example:8443/v1", true},
		{"api.example:443", "https://api.example/v1", true},
		{"api.example:80", "http://api.example/v1", true},
		{"api.example:443", "http://api.example/v1", false},
		{"api.example:8443", "https://api.example/v1", false},
		{"api.example", "https://sub.api.example/", false},
		{"api.example", "https://api.example.evil/", false},
		{"api.example", "https://evil/?api.example", false},
		{"api.example", "https://api.example./", false},
		{"*.example", "https://api.example/", false},
		{"https://api.example", "https://api.example/", false},
		{"api.\u212axample", "https://api.kxample/", false},
		{"a.example,api.example", "https://api.example/", true},
		{"::1", "http://[::1]:8080/", true},
		{"[::1]", "http://[::1]:8080/", true},
		{"[::1]:8080", "http://[::1]:8080/", true},
		{"[::1]:8081", "http://[::1]:8080/", false},
		{"127.0.0.1:8080", "http://127.0.0.1:8080/", true},
	} {
		credential := Credential{Token: "t", Hosts: strings.Split(tc.hosts, ",")}
		err := credential.Check(target(t, httpTool(tc.url)))
		if (err == nil) != tc.want || err != nil && !errors.Is(err, ErrCredentialNotAllowed) {
			t.Errorf("%s to %s: got %v, want allowed: %t", tc.hosts, tc.url, err, tc.want)
		}
	}
	for _, token := range []string{"", "a\nb", "a\x00"} {
		if err := (Credential{Token: token, Hosts: []string{"h"}}).Check(target(t, httpTool("http://h"))); !errors.Is(err, ErrCredentialNotAllowed) {
			t.Errorf("token %q: got %v", token, err)
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
