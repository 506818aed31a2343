package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// reported runs a report by alice with a standard input, while no manager is there, and returns its job.
func (s *shop) reported(stdin string, args ...string) v1alpha1.DiagnosisJob {
	s.t.Helper()
	r := plugin(s.t, stdin, append([]string{"report", "mcp_search", "--status", "500", "-o", "json", "--kubeconfig", s.kubeconfigs["alice"]}, args...)...)
	var v pendingVerdict
	if err := json.Unmarshal([]byte(r.Out), &v); err != nil || r.Code != exitFine {
		s.t.Fatalf("%v: exit code %d, %s%s", err, r.Code, r.Out, r.Err)
	}
	var job v1alpha1.DiagnosisJob
	s.must(s.env.Admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.name, Name: v.Job}, &job))
	return job
}

// Nobody else does it while the manager is away, and its webhook cannot know that there was more if the end is cut off.
func TestAReportIsCleanAndShortBeforeItIsSent(t *testing.T) {
	s := newShop(t)
	secret := "ghp_" + "Zx8Qm2Lp0Rt7Yv4Wn9Kc3Hb6Jd1Fs5Ga8Ue2"
	before := strings.Repeat("a", v1alpha1.MaxErrorBody-21) + " " // So that half of it stands before the cut.
	for _, tc := range []struct {
		name, stdin string
		args        []string
	}{
		{"a body from the standard input", before + secret + " and more", []string{"--body", "-"}},
		{"of which there is much more", before + secret + strings.Repeat(" and more", 100_000), []string{"--body", "-"}},
		{"a body", "", []string{"--body", before + secret + " and more"}},
		{"a message", "", []string{"--message", strings.Repeat("a", v1alpha1.MaxErrorMessage-21) + " " + secret}},
		{"a note", "", []string{"--note", strings.Repeat("a", 500-21) + " " + secret}},
		{"bytes that are no text", "\xff\xfe" + secret, []string{"--body", "-"}},
	} {
		job := s.reported(tc.stdin, tc.args...)
		for field, value := range map[string]string{"body": job.Spec.Error.Body, "message": job.Spec.Error.Message, "note": job.Spec.Note} {
			if at := strings.Index(value, secret[:8]); at >= 0 {
				t.Errorf("%s: of the %s %q is stored", tc.name, field, value[at:])
			}
		}
	}
}

func TestAReportWhileTheManagerIsAwaySaysThatNobodyLookedAtIt(t *testing.T) {
	s := newShop(t)
	s.says("alice", exitFine, "report mcp_search --status 403", "Stored as job report-", "nobody has looked at it yet: the manager did not answer. It is decided when the manager is back")
	var got map[string]any
	r := s.as("alice", words("report mcp_search --status 403 -o json")...)
	if err := json.Unmarshal([]byte(r.Out), &got); err != nil {
		t.Fatalf("%v: %s", err, r.Out)
	}
	want := map[string]any{"outcome": "Pending", "classification": "UNCLEAR", "diagnosisPending": true, "stored": true, "job": got["job"], "message": got["message"]}
	if diff := cmp.Diff(want, got); diff != "" || got["job"] == "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	help := plugin(t, "", "report", "--help").Out
	for _, field := range slices.Sorted(maps.Keys(want)) {
		if !strings.Contains(help, field) {
			t.Errorf("the help does not name %s", field)
		}
	}
}
