// Package testenv starts a real API server with the project's own configuration, for tests and the demo. Nobody
// but the set-up itself is a cluster admin there, which passes every check.
package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

const (
	// OperatorNamespace is where the manager lives (config/default).
	OperatorNamespace = "agrajag-system"
	// ManagerUser is the name by which the API server knows the manager's service account.
	ManagerUser = "system:serviceaccount:agrajag-system:agrajag-manager"
)

// Env is a running API server.
type Env struct {
	// Admin is a client that passes every check: for setting things up, never for what is tested.
	Admin client.Client
	// Scheme knows the kinds of Kubernetes and ours.
	Scheme *apiruntime.Scheme
	// Assets is the directory of kube-apiserver, etcd and kubectl.
	Assets string

	environment *envtest.Environment
}

// Options say what else is set up.
type Options struct {
	// Webhooks registers the webhooks, at a port and with certificates that Webhook tells. They are away until a
	// manager serves them.
	Webhooks bool
}

// Start starts an API server with our kinds, roles and policies. The caller stops it.
func Start(o Options) (*Env, error) {
	assets, err := assetsDir()
	if err != nil {
		return nil, err
	}
	scheme := Scheme()
	environment := &envtest.Environment{
		Scheme:                scheme,
		BinaryAssetsDirectory: assets,
		ErrorIfCRDPathMissing: true,
		CRDDirectoryPaths:     []string{Path("config", "crd")},
	}
	if o.Webhooks {
		environment.WebhookInstallOptions.Paths = []string{Path("config", "webhook", "webhooks.yaml")}
	}
	config, err := environment.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start API server: %w", err), environment.Stop())
	}
	env := &Env{Scheme: scheme, Assets: assets, environment: environment}
	if env.Admin, err = client.New(config, client.Options{Scheme: scheme}); err == nil {
		err = env.setUp(context.Background())
	}
	if err != nil {
		return nil, errors.Join(err, environment.Stop())
	}
	return env, nil
}

// Run starts an API server for the tests of a package, hands it to use, runs them and stops it. It returns the exit
// code for TestMain.
func Run(tests interface{ Run() int }, o Options, use func(*Env)) int {
	env, err := Start(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(env)
	code := tests.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// Stop stops the API server.
func (e *Env) Stop() error { return e.environment.Stop() }

// Webhook tells where a manager must serve the webhooks, and the directory of its certificate.
func (e *Env) Webhook() (host string, port int, certDir string) {
	o := e.environment.WebhookInstallOptions
	return o.LocalServingHost, o.LocalServingPort, o.LocalServingCertDir
}

// User returns a connection as an ordinary user.
func (e *Env) User(name string) (*rest.Config, error) {
	user, err := e.environment.AddUser(envtest.User{Name: name, Groups: []string{"system:authenticated"}}, nil)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	config := user.Config()
	config.QPS, config.Burst = 200, 400
	return config, nil
}

// KubeConfig writes a kubeconfig for an ordinary user, who works in a namespace, to a file.
func (e *Env) KubeConfig(name, namespace, file string) error {
	user, err := e.environment.AddUser(envtest.User{Name: name, Groups: []string{"system:authenticated"}}, nil)
	if err != nil {
		return fmt.Errorf("add user %s: %w", name, err)
	}
	data, err := user.KubeConfig()
	if err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", name, err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", name, err)
	}
	for _, c := range config.Contexts {
		c.Namespace = namespace
	}
	return clientcmd.WriteToFile(*config, file)
}

// Namespace creates a namespace, in the given tenant if one is named.
func (e *Env) Namespace(ctx context.Context, name, tenant string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if tenant != "" {
		namespace.Labels = map[string]string{"tools.agrajag.dev/tenant": tenant}
	}
	return e.Admin.Create(ctx, namespace)
}

// Bind gives a user a ClusterRole in a namespace.
func (e *Env) Bind(ctx context.Context, namespace, role, user string) error {
	return e.Admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: role + "-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

// setUp applies roles and policies and waits until the policies are in force.
func (e *Env) setUp(ctx context.Context) error {
	if err := e.Namespace(ctx, OperatorNamespace, ""); err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	for _, dir := range []string{"rbac", "policy"} {
		if err := e.ApplyDir(ctx, Path("config", dir)); err != nil {
			return err
		}
	}
	return e.awaitPolicies(ctx)
}

// ApplyDir applies every object in the YAML files of a directory.
func (e *Env) ApplyDir(ctx context.Context, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := e.ApplyYAML(ctx, string(data)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// ApplyYAML creates the objects of YAML documents that are not there yet.
func (e *Env) ApplyYAML(ctx context.Context, documents string) error {
	objects, err := Objects([]byte(documents))
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := e.Admin.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Objects reads the objects of YAML documents.
func Objects(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("read YAML: %w", err)
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// Scheme knows the kinds of Kubernetes and ours.
func Scheme() *apiruntime.Scheme {
	scheme := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // The lists are static: one run shows it.
		}
	}
	return scheme
}

// Path returns the path of a file of the project.
func Path(parts ...string) string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(append([]string{filepath.Dir(here), "..", ".."}, parts...)...)
}

// assetsDir finds the control plane's binaries.
func assetsDir() (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir, nil
	}
	found, err := filepath.Glob(Path("bin", "controlplane", "*", "kube-apiserver"))
	if err != nil || len(found) == 0 {
		return "", errors.Join(err, errors.New("no kube-apiserver: run `make controlplane` first, or set KUBEBUILDER_ASSETS"))
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// Token returns a token of a service account, which it creates if it is not there, for audiences; none: the API server's.
func (e *Env) Token(ctx context.Context, namespace, account string, audiences ...string) (string, error) {
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := e.Admin.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create service account %s: %w", account, err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if err := e.Admin.SubResource("token").Create(ctx, object, request); err != nil {
		return "", fmt.Errorf("create a token of %s: %w", account, err)
	}
	return request.Status.Token, nil
}

// AccountUser is the name by which the API server knows a service account.
func AccountUser(namespace, account string) string {
	return "system:serviceaccount:" + namespace + ":" + account
}

// Account returns a connection as a service account, which it creates if it is not there.
func (e *Env) Account(ctx context.Context, namespace, account string) (*rest.Config, error) {
	token, err := e.Token(ctx, namespace, account)
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(e.environment.Config)
	config.BearerToken, config.QPS, config.Burst = token, 200, 400
	return config, nil
}
