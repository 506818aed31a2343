package webhook

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// tenants are two tenants with their projects, and people with the rights that their names tell. Everybody is an
// ordinary user: nobody here passes every check.
type tenants struct {
	people map[string]client.Client
}

// steps numbers tools and namespaces, so that no case meets what another left.
var steps atomic.Int32

// Who may what. Roles are those of config/rbac, in a namespace.
var grants = map[string][][2]string{
	"alice":         {{"a1", "agrajag-reporter"}, {"a2", "agrajag-reporter"}},
	"bob":           {{"b1", "agrajag-reporter"}},
	"runtime":       {{"a1", "agrajag-reporter"}, {"a1", "agrajag-runtime"}},
	"tenant-agent":  {{"a1", "agrajag-reporter"}, {"tenant-a", "agrajag-reporter"}},
	"global-agent":  {{"a1", "agrajag-reporter"}, {testenv.OperatorNamespace, "agrajag-reporter"}},
	"tenant-b-only": {{"a1", "agrajag-reporter"}, {"tenant-b", "agrajag-reporter"}},
	"lone-agent":    {{"lone", "agrajag-reporter"}},
	"editor":        {{"a1", "agrajag-editor"}},
	"labeller":      {},
	"joins-a":       {{"tenant-a", "tenant-joiner"}},
	"joins-both":    {{"tenant-a", "tenant-joiner"}, {"tenant-b", "tenant-joiner"}},
	// The manager may stamp; to create it needs what a later REST API needs.
	testenv.ManagerUser: {{"a1", "agrajag-reporter"}},
}

func newTenants(t *testing.T) *tenants {
	t.Helper()
	needEnv(t)
	w := &tenants{people: map[string]client.Client{}}
	create := func(object client.Object) {
		if err := env.Admin.Create(t.Context(), object); !apierrors.IsAlreadyExists(err) { // Run again, it is all there.
			must(t, err)
		}
	}
	for _, namespace := range [][2]string{{"tenant-a", ""}, {"tenant-b", ""}, {"a1", "tenant-a"}, {"a2", "tenant-a"}, {"b1", "tenant-b"}, {"lone", ""}} {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace[0], Labels: map[string]string{}}}
		label(object, namespace[1])
		create(object)
	}
	role := func(name string, rules ...rbacv1.PolicyRule) {
		create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	}
	role("tenant-joiner", rbacv1.PolicyRule{APIGroups: []string{"tools.agrajag.dev"}, Resources: []string{"tenants"}, Verbs: []string{"join"}})
	role("namespace-admin", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces", "namespaces/status"}, Verbs: []string{"create", "get", "update", "patch"}})
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "namespace-admin"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "namespace-admin"}}
	for _, person := range []string{"labeller", "joins-a", "joins-both"} {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: person})
	}
	create(binding)
	for person, list := range grants {
		for _, grant := range list {
			must(t, env.Bind(t.Context(), grant[0], grant[1], person))
		}
		w.people[person] = clientOf(t, person)
	}
	return w
}

// The policies hold alike while the manager is away and while it answers; while it is away nothing is lost.
func TestPolicies(t *testing.T) {
	w := newTenants(t)
	t.Run("with the webhooks away", w.test)
	serve(t)
	t.Run("with the webhooks served", w.test)
	t.Run("the manager's own report is answered, one on behalf is not", w.onBehalf)
}

func (w *tenants) test(t *testing.T) {
	t.Run("reports", w.reports)
	t.Run("a report never changes", w.frozen)
	t.Run("a tenant's user has no business with another's project", w.apart)
	t.Run("nobody writes health but the manager", w.healthIsTheManagers)
	t.Run("tenant label", w.labels)
}

// spec edits a report's spec.
func spec(edit func(*v1alpha1.DiagnosisJobSpec)) func(*v1alpha1.DiagnosisJob) {
	return func(job *v1alpha1.DiagnosisJob) { edit(&job.Spec) }
}

func (w *tenants) reports(t *testing.T) {
	forUser := func(user string) func(*v1alpha1.DiagnosisJob) {
		return spec(func(s *v1alpha1.DiagnosisJobSpec) { s.OriginatingUserID = v1alpha1.UserID(user) })
	}
	scoped := func(scope v1alpha1.Scope) func(*v1alpha1.DiagnosisJob) {
		return spec(func(s *v1alpha1.DiagnosisJobSpec) { s.Scope = scope })
	}
	says := func(reporter string) func(*v1alpha1.DiagnosisJob) {
		return spec(func(s *v1alpha1.DiagnosisJobSpec) { s.Reporter = v1alpha1.UserID(reporter) })
	}
	plain := func(*v1alpha1.DiagnosisJob) {}
	for _, tc := range []struct {
		name       string
		who, where string
		edit       func(*v1alpha1.DiagnosisJob)
		want       string // a part of the refusal; empty: accepted
		reporter   string // who it is stored as; empty: whoever made it
	}{
		{name: "a plain report is stamped with its reporter", who: "alice", where: "a1", edit: plain},
		{name: "a reporter that is somebody else is overwritten", who: "alice", where: "a1", edit: says("mallory")},
		{name: "even one that claims to be the manager", who: "alice", where: "a1", edit: says(testenv.ManagerUser)},
		{name: "the manager names the reporter for whom it acts", who: testenv.ManagerUser, where: "a1", edit: says("alice"), reporter: "alice"},
		{name: "the manager itself is stamped", who: testenv.ManagerUser, where: "a1", edit: plain},
		{name: "a report for oneself", who: "alice", where: "a1", edit: forUser("alice")},
		{name: "a report for another user", who: "alice", where: "a1", edit: forUser("bob"), want: "spec.originatingUserId: reporting for user bob needs the verb report-for-others"},
		{name: "with report-for-others", who: "runtime", where: "a1", edit: forUser("bob")},
		{name: "a report for nobody", who: "alice", where: "a1", edit: forUser("_system")},
		{name: "an empty user is nobody", who: "alice", where: "a1", edit: forUser("")},
		{name: "what only looks like nobody is somebody", who: "alice", where: "a1", edit: forUser("_SYSTEM"), want: "reporting for user _SYSTEM"},
		{name: "a name with a space too much is another name", who: "alice", where: "a1", edit: forUser("alice "), want: "reporting for user alice "},
		{name: "PROJECT scope needs nothing more", who: "alice", where: "a2", edit: scoped(v1alpha1.ScopeProject)},
		{name: "TENANT scope", who: "alice", where: "a1", edit: scoped(v1alpha1.ScopeTenant), want: "spec.scope: TENANT needs the verb create on diagnosisjobs in namespace tenant-a"},
		{name: "TENANT scope, with create there", who: "tenant-agent", where: "a1", edit: scoped(v1alpha1.ScopeTenant)},
		{name: "TENANT scope, with create in another tenant", who: "tenant-b-only", where: "a1", edit: scoped(v1alpha1.ScopeTenant), want: "in namespace tenant-a"},
		{name: "TENANT scope where the project is its own tenant", who: "lone-agent", where: "lone", edit: scoped(v1alpha1.ScopeTenant)},
		{name: "GLOBAL scope", who: "alice", where: "a1", edit: scoped(v1alpha1.ScopeGlobal), want: "spec.scope: GLOBAL needs the verb create on diagnosisjobs in namespace agrajag-system"},
		{name: "GLOBAL scope, with create in the tenant only", who: "tenant-agent", where: "a1", edit: scoped(v1alpha1.ScopeGlobal), want: "in namespace agrajag-system"},
		{name: "GLOBAL scope, with create in the operator's namespace", who: "global-agent", where: "a1", edit: scoped(v1alpha1.ScopeGlobal)},
		{name: "which does not allow TENANT", who: "global-agent", where: "a1", edit: scoped(v1alpha1.ScopeTenant), want: "in namespace tenant-a"},
		{name: "a project that is not one's own", who: "bob", where: "a1", edit: plain, want: `User "bob" cannot create resource "diagnosisjobs"`},
		{name: "not even with the tenant's name in it", who: "bob", where: "a1", edit: scoped(v1alpha1.ScopeTenant), want: `User "bob" cannot create resource "diagnosisjobs"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := steps.Add(1)
			job := project{t, tc.where}.job(fmt.Sprintf("tool-%d", step), 503, tc.edit)
			err := w.people[tc.who].Create(t.Context(), job)
			if tc.want != "" {
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("answered %v, want a refusal with %q", err, tc.want)
				}
				return
			}
			must(t, err)
			stored := &v1alpha1.DiagnosisJob{}
			must(t, env.Admin.Get(t.Context(), client.ObjectKeyFromObject(job), stored))
			if tc.reporter == "" {
				tc.reporter = tc.who
			}
			if string(stored.Spec.Reporter) != tc.reporter || stored.Status.Phase != v1alpha1.PhaseInit {
				t.Errorf("stored as reported by %q, in phase %q", stored.Spec.Reporter, stored.Status.Phase)
			}
		})
	}
}

func (w *tenants) frozen(t *testing.T) {
	step := steps.Add(1)
	job := project{t, "a1"}.job(fmt.Sprintf("tool-%d", step), 503)
	must(t, w.people["alice"].Create(t.Context(), job))
	for _, tc := range []struct {
		name string
		who  string
		edit func(*v1alpha1.DiagnosisJob)
		want string
	}{
		{"not by an editor", "editor", spec(func(s *v1alpha1.DiagnosisJobSpec) { s.Note = "changed" }), "spec: a report never changes"},
		{"nor its reporter", "editor", spec(func(s *v1alpha1.DiagnosisJobSpec) { s.Reporter = "editor" }), "spec: a report never changes"},
		{"nor by taking something away", "editor", spec(func(s *v1alpha1.DiagnosisJobSpec) { s.Error.HTTPStatus = nil; s.Error.Message = "x" }), "spec: a report never changes"},
		{"its labels may", "editor", func(job *v1alpha1.DiagnosisJob) { job.Labels = map[string]string{"seen": "yes"} }, ""},
		{"the manager may take out secrets", testenv.ManagerUser, spec(func(s *v1alpha1.DiagnosisJobSpec) { s.Note = "[redacted:123456]" }), ""},
		{"the reporter may not change anything", "alice", func(job *v1alpha1.DiagnosisJob) { job.Labels = nil }, `User "alice" cannot update resource "diagnosisjobs"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := &v1alpha1.DiagnosisJob{}
			must(t, env.Admin.Get(t.Context(), client.ObjectKeyFromObject(job), now))
			tc.edit(now)
			expect(t, w.people[tc.who].Update(t.Context(), now), tc.want)
		})
	}
}

// expect compares an answer with a part of the wanted refusal; empty: accepted.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want)):
		t.Errorf("answered %v, want a refusal with %q", err, want)
	}
}

func (w *tenants) apart(t *testing.T) {
	bob, key := w.people["bob"], client.ObjectKey{Namespace: "a1", Name: "x"}
	in := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	for verb, try := range map[string]func(context.Context) error{
		"list jobs": func(ctx context.Context) error {
			return bob.List(ctx, &v1alpha1.DiagnosisJobList{}, client.InNamespace("a1"))
		},
		"get a job":    func(ctx context.Context) error { return bob.Get(ctx, key, &v1alpha1.DiagnosisJob{}) },
		"delete a job": func(ctx context.Context) error { return bob.Delete(ctx, &v1alpha1.DiagnosisJob{ObjectMeta: in}) },
		"read health": func(ctx context.Context) error {
			return bob.List(ctx, &v1alpha1.ToolHealthList{}, client.InNamespace("a1"))
		},
		"describe a tool": func(ctx context.Context) error { return bob.Create(ctx, &v1alpha1.Tool{ObjectMeta: in}) },
		"write a rule":    func(ctx context.Context) error { return bob.Create(ctx, &v1alpha1.ErrorPatternSet{ObjectMeta: in}) },
		"write a recipe":  func(ctx context.Context) error { return bob.Create(ctx, &v1alpha1.DiagnosisRecipe{ObjectMeta: in}) },
		"read a secret":   func(ctx context.Context) error { return bob.Get(ctx, key, &corev1.Secret{}) },
		"rule the tenant": func(ctx context.Context) error {
			return bob.Create(ctx, &v1alpha1.ErrorPatternSet{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "x"}})
		},
		"list everybody's": func(ctx context.Context) error { return bob.List(ctx, &v1alpha1.DiagnosisJobList{}) },
	} {
		if err := try(t.Context()); !apierrors.IsForbidden(err) {
			t.Errorf("bob may %s: %v", verb, err)
		}
	}
}

func (w *tenants) healthIsTheManagers(t *testing.T) {
	step := steps.Add(1)
	row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: "a1", Name: fmt.Sprintf("tool-%d", step)},
		Spec: v1alpha1.ToolHealthSpec{ToolName: v1alpha1.ToolName(fmt.Sprintf("tool-%d", step)), Scope: v1alpha1.ScopeProject, ScopeID: "a1"}}
	row.Status.State = v1alpha1.StateDown
	must(t, w.people["editor"].Create(t.Context(), row))
	if row.Status.State != "" {
		t.Error("an editor created a row with a state")
	}
	for _, tc := range []struct{ who, want string }{
		{"alice", `cannot update resource "toolhealths/status"`}, {"editor", `cannot update resource "toolhealths/status"`}, {testenv.ManagerUser, ""},
	} {
		row.Status.State = v1alpha1.StateDown
		expect(t, w.people[tc.who].Status().Update(t.Context(), row.DeepCopy()), tc.want)
	}
	job := &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Namespace: "a1", Name: "any"}}
	for _, who := range []string{"alice", "editor"} {
		expect(t, w.people[who].Status().Update(t.Context(), job), `cannot update resource "diagnosisjobs/status"`)
	}
	must(t, w.people["editor"].Get(t.Context(), client.ObjectKeyFromObject(row), row))
	row.Spec.Override = &v1alpha1.HealthOverride{State: v1alpha1.StateOK, Reason: "maintenance"}
	expect(t, w.people["editor"].Update(t.Context(), row), "")
}

func (w *tenants) labels(t *testing.T) {
	const subresource = "status"
	leave, join := "taking a namespace from tenant tenant-a needs the verb join", "putting a namespace under tenant "
	for _, tc := range []struct {
		name, who, from, to, through, want string
	}{
		{name: "set without join", who: "labeller", to: "tenant-a", want: join + "tenant-a"},
		{name: "set with join", who: "joins-a", to: "tenant-a"},
		{name: "set for another tenant than one may join", who: "joins-a", to: "tenant-b", want: join + "tenant-b"},
		{name: "set for a tenant that does not exist", who: "joins-both", to: "nowhere", want: join + "nowhere"},
		{name: "removed without join", who: "labeller", from: "tenant-a", want: leave},
		{name: "removed with join", who: "joins-a", from: "tenant-a"},
		{name: "changed with join in the old tenant only", who: "joins-a", from: "tenant-a", to: "tenant-b", want: join + "tenant-b"},
		{name: "changed with join in neither", who: "labeller", from: "tenant-a", to: "tenant-b", want: join + "tenant-b"},
		{name: "changed with join in the new tenant only", who: "joins-a", from: "tenant-b", to: "tenant-a", want: "taking a namespace from tenant tenant-b"},
		{name: "changed with join in both", who: "joins-both", from: "tenant-a", to: "tenant-b"},
		{name: "kept while something else changes", who: "labeller", from: "tenant-a", to: "tenant-a"},
		{name: "not there at all", who: "labeller"},
		{name: "set through the status without join", who: "labeller", to: "tenant-a", through: subresource, want: join + "tenant-a"},
		{name: "removed through the status without join", who: "labeller", from: "tenant-a", through: subresource, want: leave},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := steps.Add(1)
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("labelled-%d", step), Labels: map[string]string{"other": "before"}}}
			label(namespace, tc.from)
			must(t, env.Admin.Create(t.Context(), namespace))
			label(namespace, tc.to)
			namespace.Labels["other"] = "after"
			var err error
			if tc.through == subresource {
				err = w.people[tc.who].Status().Update(t.Context(), namespace)
			} else {
				err = w.people[tc.who].Update(t.Context(), namespace)
			}
			expect(t, err, tc.want)
			wantTenant := tc.to
			if tc.want != "" {
				wantTenant = tc.from
			}
			must(t, env.Admin.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
			if got := namespace.Labels[tenancy.TenantLabel]; got != wantTenant {
				t.Errorf("the namespace is under tenant %q, want %q", got, wantTenant)
			}
			if tc.from != "" || tc.through != "" {
				return
			}
			created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name + "-new", Labels: map[string]string{}}}
			label(created, tc.to)
			expect(t, w.people[tc.who].Create(t.Context(), created), tc.want)
		})
	}
}

// label puts a namespace under a tenant, or under none.
func label(namespace *corev1.Namespace, tenant string) {
	maps.DeleteFunc(namespace.Labels, func(key, _ string) bool { return key == tenancy.TenantLabel })
	if tenant != "" {
		namespace.Labels[tenancy.TenantLabel] = tenant
	}
}

// onBehalf needs the webhooks: one that is asked answers a 403, one that is passed over lets it become a job.
func (w *tenants) onBehalf(t *testing.T) {
	p, manager := project{t, "a1"}, w.people[testenv.ManagerUser]
	for _, tc := range []struct {
		reporter v1alpha1.UserID
		want     metav1.StatusReason
	}{{"", ReasonClassified}, {testenv.ManagerUser, ReasonClassified}, {"alice", ""}} {
		step := steps.Add(1)
		job := p.job(fmt.Sprintf("tool-%d", step), 403, spec(func(s *v1alpha1.DiagnosisJobSpec) { s.Reporter = tc.reporter }))
		if err := manager.Create(t.Context(), job); reason(err) != tc.want {
			t.Errorf("reported by the manager as %q: %v, want %q", tc.reporter, err, tc.want)
		}
		if onBehalf := tc.want == ""; onBehalf != strings.HasPrefix(job.Name, "report-") {
			t.Errorf("reported by the manager as %q, the job is named %q", tc.reporter, job.Name)
		}
	}
}
