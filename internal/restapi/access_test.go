package restapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// attempt is something that a caller may or may not do in a project: over REST and, where there is the same there,
// with the API server.
type attempt struct {
	name   string
	rest   func(p project, token string) reply
	object func(p project) *v1alpha1.DiagnosisJob
}

func reports(name string, edit func(*rest.Report)) attempt {
	return attempt{
		name: name,
		rest: func(p project, token string) reply {
			return p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/errors", status("search", 403, edit))
		},
		object: func(p project) *v1alpha1.DiagnosisJob {
			r := status("search", 403, edit)
			return &v1alpha1.DiagnosisJob{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.name, GenerateName: "report-"},
				Spec: v1alpha1.DiagnosisJobSpec{ToolName: "search", Scope: v1alpha1.Scope(r.Scope), OriginatingUserID: v1alpha1.UserID(r.OriginatingUserID),
					Error: &v1alpha1.ToolError{HTTPStatus: &r.Error.HTTPStatus}},
			}
		},
	}
}

func requests(name, method, path string, body any) attempt {
	return attempt{name: name, rest: func(p project, token string) reply {
		return p.do(token, method, fmt.Sprintf(path, p.name), body)
	}}
}

// attempts are all that there is to do. The caller's own name is that of the account "self" in the project "home".
func attempts(self string) []attempt {
	return []attempt{
		reports("report for nobody", func(*rest.Report) {}),
		reports("report for itself", forUser(self)),
		reports("report for another", forUser("alice")),
		reports("report as if nobody", forUser("_system")),
		reports("report for the tenant", func(r *rest.Report) { r.Scope = "TENANT" }),
		reports("report for everybody", func(r *rest.Report) { r.Scope = "GLOBAL" }),
		requests("succeed", http.MethodPost, "/v1/projects/%s/successes", rest.Success{ToolName: "search"}),
		requests("succeed for another", http.MethodPost, "/v1/projects/%s/successes", rest.Success{ToolName: "search", OriginatingUserID: "alice"}),
		requests("close a connection", http.MethodPost, "/v1/projects/%s/events", rest.Event{Type: rest.ConnectionReopened, ToolNames: []string{"search"}}),
		requests("end whoever's session", http.MethodPost, "/v1/projects/%s/events", rest.Event{Type: rest.SessionEnded, OriginatingSessionID: "s1"}),
		requests("end nobody's session", http.MethodPost, "/v1/projects/%s/events", rest.Event{Type: rest.SessionEnded, OriginatingSessionID: "s1", OriginatingUserID: "_system"}),
		requests("end another's session", http.MethodPost, "/v1/projects/%s/events", rest.Event{Type: rest.SessionEnded, OriginatingSessionID: "s1", OriginatingUserID: "alice"}),
		requests("end its own session", http.MethodPost, "/v1/projects/%s/events", rest.Event{Type: rest.SessionEnded, OriginatingSessionID: "s1", OriginatingUserID: self}),
		requests("close another's client", http.MethodPost, "/v1/projects/%s/events",
			rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"client_x"}, OriginatingSessionID: "s1", OriginatingUserID: "alice"}),
		requests("read", http.MethodGet, "/v1/projects/%s/tools/search/health", nil),
		requests("read by query", http.MethodGet, "/v1/projects/%s/health?tool=search", nil),
		requests("list", http.MethodGet, "/v1/projects/%s/tools", nil),
		requests("recheck", http.MethodPost, "/v1/projects/%s/tools/search/recheck", nil),
		requests("recheck as another", http.MethodPost, "/v1/projects/%s/recheck?tool=search&user=alice", nil),
		requests("recheck for the tenant", http.MethodPost, "/v1/projects/%s/tools/search/recheck?scope=TENANT", nil),
		requests("recheck by the specification's path", http.MethodPost, "/brain/acme/tools/search/recheck?scopeId=%s", nil),
	}
}

// eventsAlone is a role of one's own that may tell of events and not speak for others.
func eventsAlone(t *testing.T) {
	t.Helper()
	err := env.Admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "events-alone"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{resourceJobs}, Verbs: []string{verbEvents}}}})
	if !apierrors.IsAlreadyExists(err) { // Run again, it is there.
		must(t, err)
	}
}

// Every caller tries everything in a project of its own tenant and in one of another, over REST and with the API server,
// whose policies decide the same.
func TestNothingCrossesProjectsAndTenants(t *testing.T) {
	for _, webhooks := range []bool{false, true} {
		t.Run(fmt.Sprintf("webhooks served: %t", webhooks), func(t *testing.T) {
			w := newWorldWith(t, webhooks)
			home, foreign := w.project("acme"), w.project("globex")
			for _, tenant := range []string{"acme", "globex"} {
				if err := env.Namespace(t.Context(), tenant, ""); !apierrors.IsAlreadyExists(err) {
					must(t, err)
				}
			}
			report := []string{"report for nobody", "report for itself", "report as if nobody", "succeed", "recheck", "recheck by the specification's path"}
			read := []string{"read", "read by query", "list"}
			others := []string{"report for another", "succeed for another", "recheck as another"}
			events := []string{"close a connection", "end its own session"}
			othersEvents := []string{"end whoever's session", "end nobody's session", "end another's session", "close another's client"}
			eventsAlone(t)
			count := 0
			for _, tc := range []struct {
				name  string
				roles []string
				also  map[string]string // roles in other namespaces
				may   [][]string        // at home; elsewhere nothing
			}{
				{name: "no-roles"},
				{name: "viewer", roles: []string{"agrajag-viewer"}, may: [][]string{read}},
				{name: "reporter", roles: []string{"agrajag-reporter"}, may: [][]string{report, read}},
				{name: "runtime", roles: []string{"agrajag-reporter", "agrajag-runtime"},
					may: [][]string{report, read, others, events, othersEvents}},
				{name: "runtime-alone", roles: []string{"agrajag-runtime"}, may: [][]string{events, othersEvents}},
				{name: "events-alone", roles: []string{"agrajag-reporter", "events-alone"}, may: [][]string{report, read, events}},
				{name: "tenant-reporter", roles: []string{"agrajag-reporter"}, also: map[string]string{"acme": "agrajag-reporter"},
					may: [][]string{report, read, {"report for the tenant", "recheck for the tenant"}}},
				{name: "global-reporter", roles: []string{"agrajag-reporter"}, also: map[string]string{testenv.OperatorNamespace: "agrajag-reporter"},
					may: [][]string{report, read, {"report for everybody"}}},
				{name: "other-tenant-reporter", roles: []string{"agrajag-reporter"}, also: map[string]string{"globex": "agrajag-reporter"}, may: [][]string{report, read}},
			} {
				token := home.caller(tc.name, tc.roles...)
				self := testenv.AccountUser(home.name, tc.name)
				for namespace, role := range tc.also {
					must(t, env.Bind(t.Context(), namespace, role, self))
				}
				may := map[string]bool{}
				for _, names := range tc.may {
					for _, name := range names {
						may[name] = true
					}
				}
				config, err := env.Account(t.Context(), home.name, tc.name)
				must(t, err)
				direct, err := client.New(config, client.Options{Scheme: env.Scheme})
				must(t, err)
				for _, a := range attempts(self) {
					for _, p := range []project{home, foreign} {
						count++
						want := may[a.name] && p.name == home.name
						got := a.rest(p, token).Status
						if allowed := got < 300; allowed != want || !allowed && got != http.StatusForbidden {
							t.Errorf("%s: %s in %s: status %d, want allowed: %t", tc.name, a.name, p.name, got, want)
						}
						if a.object == nil {
							continue
						}
						count++
						err := direct.Create(t.Context(), a.object(p))
						if allowed := !apierrors.IsForbidden(err); allowed != want {
							t.Errorf("%s: %s in %s with the API server: %v, want allowed: %t", tc.name, a.name, p.name, err, want)
						}
					}
				}
			}
			t.Logf("%d attempts", count)
		})
	}
}

func TestWhoIsNobody(t *testing.T) {
	p := newWorld(t).project("")
	p.runtime()
	other, err := env.Token(t.Context(), p.name, "runtime", "something-else")
	must(t, err)
	plain, err := env.Token(t.Context(), p.name, "runtime")
	must(t, err)
	for name, header := range map[string]string{
		"no token":                         "",
		"another scheme":                   "Basic YWxpY2U6c2VjcmV0",
		"an empty token":                   "Bearer ",
		"a made-up token":                  "Bearer abc.def.ghi",
		"a token for another audience":     "Bearer " + other,
		"a token for the API server":       "Bearer " + plain,
		"a huge token":                     "Bearer " + strings.Repeat("a", 20<<10),
		"a name in a header of the client": "",
	} {
		t.Run(name, func(t *testing.T) {
			set := func(r *http.Request) {
				r.Header.Set("X-Remote-User", "system:admin")
				r.Header.Set("Impersonate-User", "system:admin")
				if header != "" {
					r.Header["Authorization"] = []string{header}
				}
			}
			got := p.do("", http.MethodGet, "/v1/projects/"+p.name+"/tools", nil, set)
			got.detail(http.StatusUnauthorized)
			if got.Header.Get("WWW-Authenticate") == "" {
				t.Error("no challenge")
			}
		})
	}
}

// reviewer answers reviews as the API server does, and counts them.
type reviewer struct {
	tokens, rights atomic.Int32
	away           atomic.Bool
	allowed        atomic.Bool
	// hold keeps answers about tokens back until it is closed, asked tells of each question; nil: neither.
	hold  chan struct{}
	asked chan struct{}
}

func (r *reviewer) access(t *testing.T, clock *clocktesting.FakeClock) *Access {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			if r.away.Load() {
				return errors.New("connection refused")
			}
			switch review := object.(type) {
			case *authenticationv1.TokenReview:
				r.tokens.Add(1)
				if r.hold != nil {
					r.asked <- struct{}{}
					<-r.hold
				}
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token == "good", Audiences: review.Spec.Audiences, User: authenticationv1.UserInfo{Username: "alice"}}
			case *authorizationv1.SubjectAccessReview:
				r.rights.Add(1)
				review.Status.Allowed = r.allowed.Load()
			}
			return nil
		},
	}).Build()
	return NewAccess(c, DefaultAudience, clock)
}

func TestAnswersAboutCallersAreRememberedForAMoment(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC))
	api := &reviewer{}
	api.allowed.Store(true)
	access := api.access(t, clock)
	try := func(token string) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		who, err := access.Authenticate(r)
		if err != nil {
			return err
		}
		return access.Authorize(t.Context(), who, verbRead, resourceRows, "shop")
	}
	for range 100 {
		must(t, try("good"))
	}
	if api.tokens.Load() != 1 || api.rights.Load() != 1 {
		t.Errorf("a hundred requests asked %d and %d times", api.tokens.Load(), api.rights.Load())
	}
	for range 100 {
		if try("bad") == nil {
			t.Fatal("a bad token was accepted")
		}
	}
	if api.tokens.Load() != 2 {
		t.Errorf("a refused token is asked about %d times", api.tokens.Load()-1)
	}
	api.allowed.Store(false)
	clock.Step(freshFor)
	if err := try("good"); asProblem(err).status != http.StatusForbidden {
		t.Errorf("a right that was withdrawn: %v", err)
	}
	api.allowed.Store(true)
	clock.Step(freshFor)
	must(t, try("good"))
	api.away.Store(true)
	clock.Step(staleFor - time.Second)
	asked := api.tokens.Load() + api.rights.Load()
	for range 100 {
		must(t, try("good"))
	}
	if again := api.tokens.Load() + api.rights.Load() - asked; again > 1 {
		t.Errorf("a hundred requests of an outage asked %d times", again)
	}
	if err := try("new"); asProblem(err).status != http.StatusServiceUnavailable {
		t.Errorf("a caller who is not known while the API server is away: %v", err)
	}
	if err := try("bad"); err == nil {
		t.Error("a refused token is accepted while the API server is away")
	}
	clock.Step(time.Second)
	if err := try("good"); asProblem(err).status != http.StatusServiceUnavailable {
		t.Errorf("a caller who was not asked about for too long: %v", err)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	m := &memory[int, bool]{}
	now := time.Now()
	for i := range maxRemembered * 2 {
		m.put(i, true, now)
	}
	if len(m.answers) > maxRemembered {
		t.Errorf("%d answers", len(m.answers))
	}
	if _, _, ok := m.get(maxRemembered*2-1, now); !ok {
		t.Error("the newest was dropped")
	}
}
