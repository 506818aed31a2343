package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestThePluginsVerdictIsThatOfREST(t *testing.T) {
	o := testOptions()
	connect := served(t, &o)
	startManager(t, o)
	p, other := newProject(t), newProject(t)
	p.user("alice")
	plugin := func(line ...string) map[string]any {
		t.Helper()
		out, got := p.plugin("alice", append([]string{"report", "search", "-o", "json"}, line...)...), map[string]any{}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return got
	}
	ofREST := func(e rest.ToolError) (got map[string]any) {
		t.Helper()
		verdict, err := connect(other).Report(t.Context(), rest.Report{ToolName: "search", OriginatingUserID: "alice", Error: &e})
		p.must(err)
		data, err := json.Marshal(verdict)
		p.must(err)
		p.must(json.Unmarshal(data, &got))
		return got
	}
	for _, tc := range []struct {
		name string
		line []string
		same rest.ToolError
	}{
		{"of a report that a rule decides", []string{"--status", "403", "--user", "alice"}, rest.ToolError{HTTPStatus: 403}},
		{"of a tool that is DOWN", []string{"--exception", "java.net.ConnectException"}, rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}},
	} {
		if diff := cmp.Diff(ofREST(tc.same), plugin(tc.line...)); diff != "" {
			t.Errorf("%s (-REST +plugin):\n%s", tc.name, diff)
		}
	}
	pending := plugin("--status", "599", "--message", "something is wrong")
	want := map[string]any{"outcome": "Pending", "classification": string(v1alpha1.Unclear), "diagnosisPending": true, "stored": true,
		"job": pending["job"], "message": "Diagnosis pending: the error of search is unclear (rule http-5xx, signature http-5xx): do not call it again for 30s; " +
			"see ToolHealth for what is found. Job: " + pending["job"].(string)}
	if diff := cmp.Diff(want, pending); diff != "" {
		t.Errorf("of one that becomes a job (-want +plugin):\n%s", diff)
	}
}
