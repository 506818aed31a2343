package main

import (
	"strings"
	"testing"
	"time"

	"github.com/agrajag-dev/agrajag/internal/health"
)

// raw is what the API server says of what it refuses by the schema, which people cannot read.
const raw = "<nil>: Invalid value"

func TestWhatIsTypedWronglyIsSaidPlainly(t *testing.T) {
	s := newShop(t)
	of := func(n int) string { return strings.Repeat("x", n) }
	for _, tc := range []struct{ name, line, want string }{
		{"a status of two digits", "report x --status 20", "--status 20 is no status of HTTP: it has three digits"},
		{"of four", "report x --status 1000", "three digits"},
		{"below nothing", "report x --status -1", "three digits"},
		{"a scope that is none, in a report", "report x --status 503 --scope BOGUS", "--scope BOGUS is not known; use SESSION, USER, PROJECT, TENANT or GLOBAL"},
		{"in a recheck", "recheck x --scope BOGUS", "--scope BOGUS is not known"},
		{"in a pin", "pin x --state OK --reason r --scope BOGUS", "--scope BOGUS is not known"},
		{"a long reason of a pin", "pin x --state OK --reason " + of(201), "--reason may have at most 200 characters, not 201"},
		{"of a mark", "mark x --state OK --reason " + of(501), "--reason may have at most 500 characters, not 501"},
		{"a long user of a report", "report x --status 503 --user " + of(257), "a user's name may have at most 256 characters, not 257"},
		{"of a recheck", "recheck x --as-user " + of(257), "a user's name may have at most 256 characters"},
		{"of a cooldown", "cooldown x --signature s --for 1h --user " + of(257), "a user's name may have at most 256 characters"},
		{"a long session", "report x --status 503 --session " + of(257), "a session's name may have at most 256 characters"},
		{"a long tool", "describe " + of(129), "the name of a tool may have at most 128 characters, not 129"},
		{"no tool", "describe ", "name one tool"},
		{"a recovery in two days", "mark x --state DOWN --reason r --until 48h", "--until 48h is more than 24h away"},
		{"at a date", "mark x --state DOWN --reason r --until 2199-01-01T00:00:00Z", "more than 24h away"},
		{"a context that is not there", "list --context nope", "there is no context nope in the kubeconfig; 'kubectl config get-contexts' lists them"},
	} {
		if r := s.as("ops", words(tc.line)...); r.Code != exitUnusable || !strings.Contains(r.Err, tc.want) || strings.Contains(r.Err, raw) || r.Out != "" {
			t.Errorf("%s: exit code %d, %s%s, want %q", tc.name, r.Code, r.Out, r.Err, tc.want)
		}
	}
	if rows := s.rows(); len(rows) != 0 {
		t.Errorf("rows were made: %+v", rows)
	}
	ä := strings.Repeat("ä", 200) // The schema counts characters.
	s.says("ops", exitFine, "pin x --state OK --scope project --reason "+ä, "is pinned to OK for scope PROJECT")
	s.says("ops", exitFine, "mark x --state DOWN --until 24h --reason r", "is marked DOWN")
	rows := s.rows()
	if len(rows) != 1 || time.Until(rows[0].Status.ExpectedRecoveryAt.Time) < health.MaxWait-time.Minute {
		t.Errorf("a recovery in a day is kept as %+v", rows)
	}
}

func TestWhoMayNotActAsAnotherIsToldSo(t *testing.T) {
	s := newShop(t)
	r := s.says("alice", exitUnusable, "list --as bob", "you may not act as bob: --as needs the verb impersonate on users")
	if strings.Contains(r.Err, "the role agrajag-viewer lets you") {
		t.Errorf("no role of ours lets her: %s", r.Err)
	}
	s.must(s.env.ApplyYAML(t.Context(), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: act-as-bob}
rules: [{apiGroups: [""], resources: [users], resourceNames: [bob], verbs: [impersonate]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: alice-acts-as-bob}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: act-as-bob}
subjects: [{kind: User, name: alice}]`))
	s.says("alice", exitUnusable, "list --as bob", "forbidden", "the role agrajag-viewer lets you") // Now it is bob who may not.
}

func TestHowAClusterIsChosen(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	t.Setenv("HOME", "/nonexistent")
	for _, args := range [][]string{{"list"}, {"list", "--kubeconfig", file(t, "empty", "")}, {"patterns", "effective"}} {
		r := plugin(t, "", args...)
		if r.Code != exitUnusable || !strings.Contains(r.Err, "no cluster is chosen: name a kubeconfig by --kubeconfig or KUBECONFIG, and one of its contexts by --context") ||
			strings.Contains(r.Err, "KUBERNETES_MASTER") {
			t.Errorf("%v: exit code %d, %s", args, r.Code, r.Err)
		}
	}
}
