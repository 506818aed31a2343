// Package config_test keeps the manifests of an installation true: they render, an API server accepts them, and what
// they say about each other and about the manager holds.
package config_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/internal/testenv"
	"github.com/agrajag-dev/agrajag/internal/webhook"
)

// env is the API server of all tests of this package.
var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, testenv.Options{}, func(e *testenv.Env) { env = e }))
}

// render returns what kubectl makes of a kustomization, by kind and name.
func render(t *testing.T, dir string) map[string]*unstructured.Unstructured {
	t.Helper()
	kubectl := exec.CommandContext(t.Context(), filepath.Join(env.Assets, "kubectl"), "kustomize", dir)
	var stderr bytes.Buffer
	kubectl.Stderr = &stderr
	rendered, err := kubectl.Output()
	if err != nil {
		t.Fatalf("kubectl kustomize %s: %v\n%s", dir, err, &stderr)
	}
	if stderr.Len() > 0 {
		t.Errorf("kubectl kustomize %s warns: %s", dir, &stderr)
	}
	return byName(t, rendered)
}

func byName(t *testing.T, documents []byte) map[string]*unstructured.Unstructured {
	t.Helper()
	list, err := testenv.Objects(documents)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]*unstructured.Unstructured{}
	for _, object := range list {
		key := object.GetKind() + " " + object.GetName()
		if objects[key] != nil && objects[key].GetNamespace() == object.GetNamespace() {
			t.Errorf("%s is there twice", key)
		}
		if object.GetKind() == "Role" || object.GetKind() == "RoleBinding" {
			key += " in " + object.GetNamespace()
		}
		objects[key] = object
	}
	return objects
}

func renderDefault(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	return render(t, testenv.Path("config", "default"))
}

// typed turns a rendered object into its type.
func typed[T any](t *testing.T, objects map[string]*unstructured.Unstructured, key string) *T {
	t.Helper()
	object := new(T)
	if objects[key] == nil {
		t.Fatalf("there is no %s", key)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[key].Object, object, true); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return object
}

func deployment(t *testing.T, objects map[string]*unstructured.Unstructured) (*appsv1.Deployment, corev1.Container) {
	t.Helper()
	d := typed[appsv1.Deployment](t, objects, "Deployment agrajag-manager")
	if n := len(d.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("%d containers instead of 1", n)
	}
	return d, d.Spec.Template.Spec.Containers[0]
}

func TestDefaultHoldsEveryManifest(t *testing.T) {
	want := []string{}
	for _, dir := range []string{"crd", "rbac", "policy", "webhook", "manager"} {
		files, err := filepath.Glob(testenv.Path("config", dir, "*.yaml"))
		if err != nil || len(files) < 2 {
			t.Fatalf("%s holds only %q: %v", dir, files, err)
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, keys(byName(t, data))...)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, keys(renderDefault(t))); diff != "" {
		t.Errorf("files (-) and what config/default renders (+) differ:\n%s", diff)
	}
}

func keys(objects map[string]*unstructured.Unstructured) []string {
	found := []string{}
	for key := range objects {
		found = append(found, key)
	}
	slices.Sort(found)
	return found
}

func TestAPIServerAcceptsEveryObject(t *testing.T) {
	for key, object := range renderDefault(t) {
		err := env.Admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object),
			&client.ApplyOptions{FieldManager: "config-test", Force: new(true), DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestPodsMeetTheRestrictedStandard creates the Deployment's pod where only pods of that standard may be.
func TestPodsMeetTheRestrictedStandard(t *testing.T) {
	objects := renderDefault(t)
	d, _ := deployment(t, objects)
	labels := typed[corev1.Namespace](t, objects, "Namespace agrajag-system").Labels
	if labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace does not demand it: %v", labels)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "restricted", Labels: labels}}
	if err := env.Admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		change    func(*corev1.Container)
		wantError string
	}{
		"as it is":                  {func(*corev1.Container) {}, ""},
		"with more capabilities":    {func(c *corev1.Container) { c.SecurityContext.Capabilities = nil }, "violates PodSecurity"},
		"with a way to more rights": {func(c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = nil }, "violates PodSecurity"},
		"as root":                   {func(c *corev1.Container) { c.SecurityContext.RunAsUser = new(int64) }, "violates PodSecurity"},
		"privileged":                {func(c *corev1.Container) { c.SecurityContext.Privileged = new(true) }, "privileged"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "manager"}, Spec: *d.Spec.Template.Spec.DeepCopy()}
			tc.change(&pod.Spec.Containers[0])
			err := env.Admin.Create(t.Context(), pod, client.DryRunAll)
			switch {
			case tc.wantError == "" && err != nil:
				t.Error(err)
			case tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)):
				t.Errorf("answered %v instead of %q", err, tc.wantError)
			}
		})
	}
}

func TestDeploymentIsAsDocumented(t *testing.T) {
	d, c := deployment(t, renderDefault(t))
	if d.Namespace != testenv.OperatorNamespace || *d.Spec.Replicas != 2 || c.Image != "agrajag-manager:latest" {
		t.Errorf("%d replicas of %s in %s", *d.Spec.Replicas, c.Image, d.Namespace)
	}
	if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the root file system can be written")
	}
	if pod := d.Spec.Template.Spec.SecurityContext; pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot {
		t.Error("the pod may run as root")
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("resources are %v", c.Resources)
	}
	if user := "system:serviceaccount:" + d.Namespace + ":" + d.Spec.Template.Spec.ServiceAccountName; user != testenv.ManagerUser {
		t.Errorf("the manager runs as %s, but the tests' manager is %s", user, testenv.ManagerUser)
	}
	for key, value := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[key] != value {
			t.Errorf("label %s of the pods is not %q", key, value)
		}
	}
}

// TestArgumentsAreFlagsOfTheManager asks the manager itself.
func TestArgumentsAreFlagsOfTheManager(t *testing.T) {
	_, c := deployment(t, renderDefault(t))
	manager := filepath.Join(t.TempDir(), "manager")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", manager, "./cmd/manager")
	build.Dir = testenv.Path()
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the manager: %v\n%s", err, output)
	}
	help, err := exec.CommandContext(t.Context(), manager, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("manager --help: %v\n%s", err, help)
	}
	known := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^  -(\S+)`).FindAllStringSubmatch(string(help), -1) {
		known[match[1]] = true
	}
	for name := range arguments(t, c) {
		if !known[name] {
			t.Errorf("the manager has no flag --%s", name)
		}
	}
	// With the flags read, it looks for an API server.
	arguments := append(slices.Clone(c.Args), "--kubeconfig="+filepath.Join(t.TempDir(), "none"))
	output, err := exec.CommandContext(t.Context(), manager, arguments...).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "find the API server") {
		t.Errorf("the manager did not accept its arguments: %v\n%s", err, output)
	}
}

// arguments reads --name=value.
func arguments(t *testing.T, c corev1.Container) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, argument := range c.Args {
		name, value, ok := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		if !ok || !strings.HasPrefix(argument, "--") {
			t.Errorf("argument %q is not --name=value", argument)
		}
		found[name] = value
	}
	return found
}

// TestPortsPathsAndCertificateMeet follows a report from the API server to the manager.
func TestPortsPathsAndCertificateMeet(t *testing.T) {
	objects := renderDefault(t)
	d, c := deployment(t, objects)
	args := arguments(t, c)
	ports := map[string]string{}
	for _, port := range c.Ports {
		ports[port.Name] = strconv.Itoa(int(port.ContainerPort))
	}
	wantPorts := map[string]string{
		"webhook": args["webhook-port"],
		"api":     strings.TrimPrefix(args["api-bind-address"], ":"),
		"metrics": strings.TrimPrefix(args["metrics-bind-address"], ":"),
		"health":  strings.TrimPrefix(args["health-probe-bind-address"], ":"),
	}
	if diff := cmp.Diff(wantPorts, ports); diff != "" {
		t.Errorf("ports that the manager serves (-) and that the container names (+) differ:\n%s", diff)
	}
	if args["namespace"] != d.Namespace {
		t.Errorf("--namespace=%s, but it runs in %s", args["namespace"], d.Namespace)
	}
	for path, probed := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probed.HTTPGet.Path != path || probed.HTTPGet.Port != intstr.FromString("health") {
			t.Errorf("%s is probed as %v", path, probed.HTTPGet)
		}
	}
	volume := d.Spec.Template.Spec.Volumes[0]
	if mount := c.VolumeMounts[0]; mount.Name != volume.Name || mount.MountPath != args["webhook-cert-dir"] || !mount.ReadOnly {
		t.Errorf("the certificate is mounted as %v", mount)
	}
	if volume.Secret.SecretName != "agrajag-webhook-cert" || *volume.Secret.DefaultMode != 0o440 {
		t.Errorf("the certificate comes from %v", volume.Secret)
	}
	service := typed[corev1.Service](t, objects, "Service agrajag-webhook")
	if diff := cmp.Diff(d.Spec.Selector.MatchLabels, service.Spec.Selector); diff != "" {
		t.Errorf("pods (-) and the pods of the Service (+) differ:\n%s", diff)
	}
	if port := service.Spec.Ports[0]; port.Port != 443 || port.TargetPort != intstr.FromString("webhook") {
		t.Errorf("the Service leads to %v", port)
	}
	api := typed[corev1.Service](t, objects, "Service agrajag-api")
	if diff := cmp.Diff(service.Spec.Selector, api.Spec.Selector); diff != "" || api.Spec.Ports[0].Port != 443 || api.Spec.Ports[0].TargetPort != intstr.FromString("api") {
		t.Errorf("the Service of the REST API leads to %v %v", api.Spec.Selector, api.Spec.Ports)
	}
	checkWebhook(t, service, webhook.PreparePath,
		typed[admissionv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration agrajag").Webhooks[0].ClientConfig)
	validating := typed[admissionv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration agrajag").Webhooks
	checkWebhook(t, service, webhook.AnswerPath, validating[0].ClientConfig)
	checkWebhook(t, service, webhook.JudgePath, validating[1].ClientConfig)
}

func checkWebhook(t *testing.T, service *corev1.Service, path string, c admissionv1.WebhookClientConfig) {
	t.Helper()
	want := &admissionv1.ServiceReference{Namespace: service.Namespace, Name: service.Name, Path: &path}
	if diff := cmp.Diff(want, c.Service); diff != "" {
		t.Error(diff)
	}
}

// TestRolesGrantNoWildcards looks at every role, and at who else may read Secrets.
func TestRolesGrantNoWildcards(t *testing.T) {
	roles := 0
	for key, object := range renderDefault(t) {
		if object.GetKind() != "Role" && object.GetKind() != "ClusterRole" {
			continue
		}
		roles++
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, granted := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
				if slices.ContainsFunc(granted, func(s string) bool { return strings.Contains(s, "*") }) {
					t.Errorf("%s grants %v", key, granted)
				}
			}
			if slices.Contains(rule.Resources, "secrets") && (role.Name != "agrajag-credential-reader" || !slices.Equal(rule.Verbs, []string{"get"})) {
				t.Errorf("%s grants %v on Secrets", key, rule.Verbs)
			}
			if mightEscalate(rule.Verbs) {
				t.Errorf("%s grants %v", key, rule.Verbs)
			}
		}
	}
	if roles < 7 {
		t.Errorf("only %d roles were looked at", roles)
	}
}

func mightEscalate(verbs []string) bool {
	return slices.ContainsFunc(verbs, func(verb string) bool { return slices.Contains([]string{"bind", "escalate", "impersonate"}, verb) })
}

func TestBindingsNameWhatExists(t *testing.T) {
	objects := renderDefault(t)
	bindings := 0
	for key, object := range objects {
		if object.GetKind() != "RoleBinding" && object.GetKind() != "ClusterRoleBinding" {
			continue
		}
		bindings++
		binding := &rbacv1.RoleBinding{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding); err != nil {
			t.Fatal(err)
		}
		role := binding.RoleRef.Kind + " " + binding.RoleRef.Name
		if binding.RoleRef.Kind == "Role" {
			role += " in " + binding.Namespace
		}
		if objects[role] == nil {
			t.Errorf("%s names %s, which does not exist", key, role)
		}
		for _, subject := range binding.Subjects {
			if objects[subject.Kind+" "+subject.Name] == nil || subject.Namespace != testenv.OperatorNamespace {
				t.Errorf("%s names %s %s/%s, which does not exist", key, subject.Kind, subject.Namespace, subject.Name)
			}
		}
	}
	if bindings != 2 {
		t.Errorf("%d bindings were looked at instead of 2", bindings)
	}
}

// TestCertManagerComponent renders config/default with the component and demands that it adds what it says and
// changes nothing else.
func TestCertManagerComponent(t *testing.T) {
	plain, with := renderDefault(t), render(t, overlay(t))
	d, _ := deployment(t, plain)
	certificate := with["Certificate agrajag-webhook"]
	if certificate == nil || with["Issuer agrajag-selfsigned"] == nil {
		t.Fatalf("no Certificate or no Issuer among %q", keys(with))
	}
	secret, _, _ := unstructured.NestedString(certificate.Object, "spec", "secretName")
	if want := d.Spec.Template.Spec.Volumes[0].Secret.SecretName; secret != want {
		t.Errorf("the certificate goes into Secret %s, but the manager mounts %s", secret, want)
	}
	names, _, _ := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
	if want := "agrajag-webhook." + d.Namespace + ".svc"; !slices.Contains(names, want) {
		t.Errorf("the API server calls %s, but the certificate is for %q", want, names)
	}
	delete(with, "Certificate agrajag-webhook")
	delete(with, "Issuer agrajag-selfsigned")
	for _, key := range []string{"MutatingWebhookConfiguration agrajag", "ValidatingWebhookConfiguration agrajag"} {
		want := certificate.GetNamespace() + "/" + certificate.GetName()
		if got := with[key].GetAnnotations()["cert-manager.io/inject-ca-from"]; got != want {
			t.Errorf("%s gets its CA from %q instead of %q", key, got, want)
		}
		with[key].SetAnnotations(nil)
	}
	if diff := cmp.Diff(plain, with); diff != "" {
		t.Errorf("the component changes more:\n%s", diff)
	}
}

// overlay writes a kustomization of config/default and the component.
func overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	here, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(testenv.Path("config"))
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, root)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("resources:\n- %[1]s/default\ncomponents:\n- %[1]s/certmanager\n", relative)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
