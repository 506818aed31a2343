package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// Types of the Secrets that the manager uses; it refuses any other, so that nobody who may write a Tool or a recipe
// can have an arbitrary Secret of the namespace sent somewhere (design §2).
const (
	// SecretTypeUser is the type of a user's credential: data token and hosts.
	SecretTypeUser corev1.SecretType = "tools.agrajag.dev/user-credential"
	// SecretTypeSystem is the type of a tool's system credential: data token and hosts.
	SecretTypeSystem corev1.SecretType = "tools.agrajag.dev/system-credential"
	// SecretTypeModel is the type of a model's credential: data apiKey and endpoint.
	SecretTypeModel corev1.SecretType = "tools.agrajag.dev/model-credential"
)

// Keys in the data of those Secrets.
const (
	// SecretKeyToken holds the token. White space around it does not count.
	SecretKeyToken = "token"
	// SecretKeyHosts lists the hosts that the token may be sent to, separated by commas: host for any port of it,
	// or host:port for that port alone. Upper and lower case are alike, and nothing else is: there are no wildcards, no
	// ranges and no subdomains, a dot at the end counts, and an international name is written as xn--....
	SecretKeyHosts = "hosts"
	// SecretKeyAPIKey holds a model's API key.
	SecretKeyAPIKey = "apiKey"
	// SecretKeyEndpoint holds the only base URL that the API key may be sent to.
	SecretKeyEndpoint = "endpoint"
)

// Why there is no credential. The text of the error tells a person what to do.
var (
	// ErrCredentialNotFound means that there is no such Secret.
	ErrCredentialNotFound = errors.New("credential not found")
	// ErrCredentialNotReadable means that the manager may not read Secrets in the namespace.
	ErrCredentialNotReadable = errors.New("credential not readable")
	// ErrCredentialNotAllowed means that the Secret is of the wrong type, is incomplete, or does not list the host.
	ErrCredentialNotAllowed = errors.New("credential not allowed")
)

// readSecret is how often a Secret is read before it counts as unreadable: for about a second.
var readSecret = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 3, Jitter: 0.1, Steps: 4}

// redacted stands where a secret was.
const redacted = "[redacted]"

// Credential is a token and the hosts that it may be sent to. However it is printed, logged or encoded, the token is
// not shown.
type Credential struct {
	// Token is the secret itself.
	Token string
	// Hosts lists where it may go, as host or host:port.
	Hosts []string
}

// String names the hosts and hides the token.
func (c Credential) String() string {
	return fmt.Sprintf("credential %s for %s", redacted, strings.Join(c.Hosts, ", "))
}

// GoString is String.
func (c Credential) GoString() string { return c.String() }

// Format writes String, whatever the verb: %d and %x would show the token else.
func (c Credential) Format(state fmt.State, _ rune) { _, _ = state.Write([]byte(c.String())) }

// MarshalJSON encodes String.
func (c Credential) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// LogValue is String.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Check returns nil if the credential can and may be sent to the target, else ErrCredentialNotAllowed.
func (c Credential) Check(t Target) error {
	switch {
	case c.Token == "" || !isHeaderValue(c.Token):
		return fmt.Errorf("%w: the token is empty or holds a character that no header may hold", ErrCredentialNotAllowed)
	case !slices.ContainsFunc(c.Hosts, t.isHost):
		return fmt.Errorf("%w: its Secret does not list the host %s, so the token is not sent there: add %s to data.%s if it belongs there",
			ErrCredentialNotAllowed, t.Host, t.Host, SecretKeyHosts)
	}
	return nil
}

// isHost reports whether an entry of a Secret's hosts names the target's host. An entry without port means any port.
func (t Target) isHost(entry string) bool {
	entry = lower(strings.TrimSpace(entry))
	if host, port, err := net.SplitHostPort(entry); err == nil {
		return host == t.Host && port == t.port()
	}
	return strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]") == t.Host
}

// Credentials reads the Secrets of projects.
type Credentials struct {
	// Reader gets Secrets. It should not be a cache, which would list all Secrets of the cluster.
	Reader client.Reader
}

// User returns the user's credential for the tool: the Secret agrajag-user-<hash12 of user>-<hash12 of tool>, else
// agrajag-user-<hash12 of user>. Errors are ErrCredentialNotFound, ErrCredentialNotReadable,
// ErrCredentialNotAllowed, or what the API server answered.
func (c Credentials) User(ctx context.Context, namespace, userID, toolName string) (*Credential, error) {
	if tenancy.User(userID) == "" {
		return nil, fmt.Errorf("%w: there is no user to whom it could belong", ErrCredentialNotFound)
	}
	wide := "agrajag-user-" + tenancy.Hash12(userID)
	narrow := wide + "-" + tenancy.Hash12(toolName)
	credential, err := c.credential(ctx, namespace, narrow, SecretTypeUser)
	if !errors.Is(err, ErrCredentialNotFound) {
		return credential, err
	}
	credential, err = c.credential(ctx, namespace, wide, SecretTypeUser)
	if errors.Is(err, ErrCredentialNotFound) {
		return nil, fmt.Errorf("%w: create the Secret %s (or, for this tool alone, %s) of type %s in namespace %s, with data %s and %s",
			ErrCredentialNotFound, wide, narrow, SecretTypeUser, namespace, SecretKeyToken, SecretKeyHosts)
	}
	return credential, err
}

// System returns the credential in the Secret that a Tool names as spec.credentials.system. Errors are as for User.
func (c Credentials) System(ctx context.Context, namespace, name string) (*Credential, error) {
	return c.credential(ctx, namespace, name, SecretTypeSystem)
}

// Model returns the API key and base URL in the Secret that a recipe names. Errors are as for User.
func (c Credentials) Model(ctx context.Context, namespace, name string) (apiKey, endpoint string, err error) {
	secret, err := c.secret(ctx, namespace, name, SecretTypeModel)
	if err != nil {
		return "", "", err
	}
	apiKey, err = entry(secret, SecretKeyAPIKey)
	if err != nil {
		return "", "", err
	}
	endpoint, err = entry(secret, SecretKeyEndpoint)
	if err != nil {
		return "", "", err
	}
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "", "", fmt.Errorf("%w: data.%s of Secret %s/%s must be an address such as https://models.example.com/v1",
			ErrCredentialNotAllowed, SecretKeyEndpoint, namespace, name)
	}
	return apiKey, endpoint, nil
}

func (c Credentials) credential(ctx context.Context, namespace, name string, want corev1.SecretType) (*Credential, error) {
	secret, err := c.secret(ctx, namespace, name, want)
	if err != nil {
		return nil, err
	}
	token, err := entry(secret, SecretKeyToken)
	if err != nil {
		return nil, err
	}
	list, err := entry(secret, SecretKeyHosts)
	if err != nil {
		return nil, err
	}
	var hosts []string
	for host := range strings.SplitSeq(list, ",") {
		if host = strings.TrimSpace(host); host != "" {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 {
		return nil, incomplete(secret, SecretKeyHosts)
	}
	return &Credential{Token: token, Hosts: hosts}, nil
}

func (c Credentials) secret(ctx context.Context, namespace, name string, want corev1.SecretType) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	// A diagnosis is made once: without the user's probe for a moment's trouble it would blame the wrong one.
	err := retry.OnError(readSecret, func(err error) bool {
		return ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)
	},
		func() error {
			return c.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
		})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: create the Secret %s of type %s in namespace %s", ErrCredentialNotFound, name, want, namespace)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w: the manager may not get Secrets in namespace %s: create the RoleBinding of "+
			"config/samples/credential-access.yaml there", ErrCredentialNotReadable, namespace)
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err)
	case secret.Type != want:
		return nil, fmt.Errorf("%w: Secret %s/%s has the type %s: a Secret's type cannot be changed, so create it anew with the type %s",
			ErrCredentialNotAllowed, namespace, name, secret.Type, want)
	}
	return secret, nil
}

// entry returns a value of the Secret's data without the white space that editors and echo leave around it.
func entry(secret *corev1.Secret, key string) (string, error) {
	value := strings.TrimSpace(string(secret.Data[key]))
	if value == "" || !isHeaderValue(value) {
		return "", incomplete(secret, key)
	}
	return value, nil
}

func incomplete(secret *corev1.Secret, key string) error {
	return fmt.Errorf("%w: data.%s of Secret %s/%s is missing, empty or holds control characters: set it", ErrCredentialNotAllowed, key,
		secret.Namespace, secret.Name)
}
