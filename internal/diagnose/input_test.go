package diagnose

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// TestAModelsInputIsSentOnlyWhereTheToolLetsIt, and it is evidence of nothing.
func TestAModelsInputIsSentOnlyWhereTheToolLetsIt(t *testing.T) {
	for _, tc := range []struct {
		name         string
		allowed      bool
		arguments    string
		breaks       bool
		want         string // in the answer to the model
		wantEvidence []Evidence
		wantSearches int
	}{
		{"not allowed: the Tool's own is sent", false, `{"sampleInput":{"q":7}}`, false, `"success":true`, []Evidence{{As: v1alpha1.ProbeAsSystem, Success: true}}, 1},
		{"allowed and fitting: the model is told, and it is no evidence", true, `{"sampleInput":{"q":"health"}}`, false, `"success":true`, []Evidence{{As: v1alpha1.ProbeAsSystem}}, 1},
		{"allowed and not fitting: it is told where", true, `{"sampleInput":{"q":7}}`, false, "at /properties/q: type", nil, 0},
		{"allowed and none given", true, `{}`, false, `"success":true`, []Evidence{{As: v1alpha1.ProbeAsSystem, Success: true}}, 1},
		{"allowed and null", true, `{"sampleInput":null}`, false, `"success":true`, []Evidence{{As: v1alpha1.ProbeAsSystem, Success: true}}, 1},
		{"allowed and no object", true, `{"sampleInput":"x"}`, false, "must be an object", nil, 0},
		{"a failure of the model's input is no evidence", true, `{"sampleInput":{"q":"health"}}`, true, `"success":false`, []Evidence{{As: v1alpha1.ProbeAsSystem}}, 1},
		{"the Tool's own, repeated by the model, is the Tool's own", true, `{"sampleInput":{ "q" : "towel" }}`, true, `"success":false`, []Evidence{{As: v1alpha1.ProbeAsSystem, Failed: true}}, 1},
		{"a failure of the Tool's own is", true, `{}`, true, `"success":false`, []Evidence{{As: v1alpha1.ProbeAsSystem, Failed: true}}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := sampletools.NewMCPServer()
			url, stop, err := sampletools.Serve("127.0.0.1:0", server)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if tc.breaks {
				server.FailTool("the index is corrupt")
			}
			w := newWorld(t)
			w.input.Tool.Spec.Endpoint = &v1alpha1.ToolEndpoint{MCP: &v1alpha1.MCPEndpoint{URL: v1alpha1.URL(url), Tool: "search"}}
			w.input.Tool.Spec.Credentials = nil
			w.input.Tool.Spec.Probe = &v1alpha1.ToolProbe{AllowModelInput: tc.allowed, Input: &apiextensionsv1.JSON{Raw: []byte(`{"q":"towel"}`)}}
			call := scripted.Step{ToolCalls: []llm.ToolCall{{ID: "1", Name: llm.ToolProbeAsSystem, Arguments: tc.arguments}}}
			if strings.Contains(tc.name, "repeated") {
				call.ToolCalls = append(call.ToolCalls, llm.ToolCall{ID: "2", Name: llm.ToolProbeAsSystem, Arguments: "{}"})
			}
			out, requests := w.runScript(t, call, says(v1alpha1.Unclear))
			if got := strings.Join(answers(requests), "\n"); !strings.Contains(got, tc.want) {
				t.Errorf("the model is answered %s, want %s", got, tc.want)
			}
			if offered := strings.Contains(requests[0].Body, "sampleInput"); offered != tc.allowed {
				t.Errorf("input is offered to the model: %t", offered)
			}
			for i := range tc.wantEvidence {
				if tc.wantEvidence[i].Failed {
					tc.wantEvidence[i].Signature = out.Probes[i].ErrorSignature
				}
			}
			if len(out.Evidence) != len(tc.wantEvidence) || len(out.Evidence) == 1 && out.Evidence[0] != tc.wantEvidence[0] {
				t.Errorf("evidence %+v, want %+v", out.Evidence, tc.wantEvidence)
			}
			wantClass := v1alpha1.Intermittent // lowered
			if len(tc.wantEvidence) == 1 && tc.wantEvidence[0].Success {
				wantClass = v1alpha1.Working
			}
			if tc.wantEvidence == nil || tc.wantEvidence[0] == (Evidence{As: v1alpha1.ProbeAsSystem}) {
				wantClass = v1alpha1.Unclear
			}
			out.Output = Output{Classification: v1alpha1.Working}
			if got := Decide(w.input, out, now).Diagnosis.Classification; got != wantClass {
				t.Errorf("a claim that it works becomes %s, want %s", got, wantClass)
			}
			if server.Searches() != tc.wantSearches {
				t.Errorf("%d searches", server.Searches())
			}
		})
	}
}
