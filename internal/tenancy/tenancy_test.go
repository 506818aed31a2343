package tenancy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestPlaceOf(t *testing.T) {
	for _, tc := range []struct {
		name       string
		labels     map[string]string
		wantTenant string
		wantOwn    bool
	}{
		{name: "a labelled project belongs to its tenant", labels: map[string]string{TenantLabel: "acme"}, wantTenant: "acme", wantOwn: true},
		{name: "an unlabelled project is its own tenant", wantTenant: "team-a"},
		{name: "an empty label is no label", labels: map[string]string{TenantLabel: ""}, wantTenant: "team-a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a", Labels: tc.labels}}
			place := PlaceOf(ns, "agrajag-system")
			if place.Tenant != tc.wantTenant || place.HasTenant() != tc.wantOwn {
				t.Errorf("tenant %q (has one: %v), want %q (%v)", place.Tenant, place.HasTenant(), tc.wantTenant, tc.wantOwn)
			}
		})
	}
}

func TestRowsLiveInTheNamespaceOfTheirScope(t *testing.T) {
	place := Place{Project: "team-a", Tenant: "acme", Operator: "agrajag-system"}
	for scope, want := range map[v1alpha1.Scope]struct{ namespace, id string }{
		v1alpha1.ScopeSession: {"team-a", "s1@" + Hash12("alice")},
		v1alpha1.ScopeUser:    {"team-a", "alice"},
		v1alpha1.ScopeProject: {"team-a", "team-a"},
		v1alpha1.ScopeTenant:  {"acme", "acme"},
		v1alpha1.ScopeGlobal:  {"agrajag-system", ""},
	} {
		if got := place.Namespace(scope); got != want.namespace {
			t.Errorf("%s: namespace %q, want %q", scope, got, want.namespace)
		}
		if got := place.ScopeID(scope, "alice", "s1"); got != want.id {
			t.Errorf("%s: scopeId %q, want %q", scope, got, want.id)
		}
	}
	if got := place.ScopeID(v1alpha1.ScopeUser, SystemUser, ""); got != "" {
		t.Errorf("_system became the user %q", got)
	}
}

// No name of a session, and no user, leads to somebody else's session.
func TestASessionIsThatOfItsUser(t *testing.T) {
	alices := SessionID("s1", "alice")
	met := map[string]string{}
	for _, session := range []string{"s1", "s2", "s1@", alices, SessionID(alices, "alice"), SessionID(alices, ""), "@" + Hash12("alice"), "s1@" + Hash12("")} {
		for _, user := range []string{"", "alice", "bob", Hash12("alice")} {
			id := SessionID(session, user)
			if other, ok := met[id]; ok {
				t.Errorf("session %q of %q is that of %s, too", session, user, other)
			}
			met[id] = session + " of " + user
			if got := SessionOf(id); got != session {
				t.Errorf("the session of %q is named %q, want %q", id, got, session)
			}
		}
	}
	if got := SessionID("s1", SystemUser); got != "s1" {
		t.Errorf("nobody's session is %q", got)
	}
	if got := SessionID("", "alice"); got != "" {
		t.Errorf("no session is %q", got)
	}
}

func TestRowName(t *testing.T) {
	for _, tc := range []struct {
		name, tool, id string
		scope          v1alpha1.Scope
		wantPlain      bool
	}{
		{name: "a project's row has the tool's own name", tool: "search", scope: v1alpha1.ScopeProject, id: "p", wantPlain: true},
		{name: "dots are fine in an object name", tool: "jira.search", scope: v1alpha1.ScopeProject, id: "p", wantPlain: true},
		{name: "underscores are not", tool: "mcp_search", scope: v1alpha1.ScopeProject, id: "p"},
		{name: "a user's row is hashed", tool: "search", scope: v1alpha1.ScopeUser, id: "alice"},
		{name: "a tool that looks hashed is hashed", tool: "search-0123456789", scope: v1alpha1.ScopeProject, id: "p"},
		{name: "only symbols", tool: "★★★", scope: v1alpha1.ScopeProject, id: "p"},
		{name: "very long", tool: strings.Repeat("Ab_", 42), scope: v1alpha1.ScopeSession, id: "s"},
		{name: "invalid bytes", tool: "a\xff\xfeb", scope: v1alpha1.ScopeProject, id: "p"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := RowName(tc.scope, tc.id, tc.tool)
			if (got == tc.tool) != tc.wantPlain {
				t.Errorf("name %q for tool %q", got, tc.tool)
			}
			if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
				t.Errorf("name %q is invalid: %v", got, problems)
			}
			if !tc.wantPlain && !hashedName.MatchString(got) {
				t.Errorf("name %q has no hash", got)
			}
		})
	}
}

func TestNamesOfDifferentIdentitiesDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, id := range [][3]string{
		{"USER", "alice", "search"}, {"SESSION", "alice", "search"}, {"USER", "bob", "search"},
		{"USER", "alice", "sea_rch"}, {"USER", "alice", "sea.rch"}, {"USER", "alic", "esearch"},
	} {
		name := RowName(v1alpha1.Scope(id[0]), id[1], id[2])
		if other, ok := seen[name]; ok {
			t.Errorf("%v and %s share the name %s", id, other, name)
		}
		seen[name] = strings.Join(id[:], "/")
	}
	key := JobKey{Scope: v1alpha1.ScopeProject, ScopeID: "team-a", Tool: "mcp_search", Signature: "http-5xx", User: "alice"}
	other := key
	other.User = "bob"
	if key.Name() == other.Name() {
		t.Errorf("jobs of two users share the name %s", key.Name())
	}
	if got, want := key.Name(), "diag-mcp-search-"; !strings.HasPrefix(got, want) || len(got) > 63 {
		t.Errorf("job name %q, want at most 63 characters that begin with %q", got, want)
	}
}

// The hash is documented for people who create credential Secrets, so it may never change.
func TestHash12IsTheOneThatUsersCompute(t *testing.T) {
	if got, want := Hash12("alice"), "2bd806c97f0e"; got != want {
		t.Errorf("Hash12(alice) = %s, want %s", got, want)
	}
}
