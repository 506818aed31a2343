package diagnose

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestParse(t *testing.T) {
	at := time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC)
	broken := Output{Classification: v1alpha1.TechnicallyBroken}
	tests := []struct {
		name   string
		answer string
		want   Output
	}{
		{
			name: "the specification's own example, in a fence, its time without seconds",
			answer: "Here is my verdict:\n```json\n" + `{
  "classification": "TECHNICALLY_BROKEN",
  "scope": "PROJECT",
  "expectedRecoveryAt": "2026-05-23T15:00Z",
  "humanNote": "MCP gateway returns 502 since 14:00; matches earlier incident on 2026-05-19",
  "userActionHint": null,
  "cooldownAdjustments": [{"errorSignature": "http-502", "userId": null, "duration": "PT30M"}]
}` + "\n```\nThat is all.",
			want: Output{
				Classification: v1alpha1.TechnicallyBroken, Scope: v1alpha1.ScopeProject, ExpectedRecoveryAt: at,
				HumanNote:           "MCP gateway returns 502 since 14:00; matches earlier incident on 2026-05-19",
				CooldownAdjustments: []v1alpha1.CooldownAdjustment{{ErrorSignature: "http-502", Duration: "PT30M"}},
			},
		},
		{name: "an object without a fence", answer: `I think {"classification":"TECHNICALLY_BROKEN"} fits.`, want: broken},
		{name: "a plain fence", answer: "```\n{\"classification\":\"TECHNICALLY_BROKEN\"}\n```", want: broken},
		{name: "a fence that is never closed", answer: "```json\n{\"classification\":\"TECHNICALLY_BROKEN\"}", want: broken},
		{name: "a fence on one line, in capitals", answer: "```JSON {\"classification\":\"TECHNICALLY_BROKEN\"}```", want: broken},
		{
			name:   "a fence with something else, then one with the verdict",
			answer: "```json\n{\"possible\":true}\n```\n```yaml\na: 1\n```\n```json\n{\"classification\":\"TECHNICALLY_BROKEN\"}\n```",
			want:   broken,
		},
		{
			name:   "a fence beats an object in the prose before it",
			answer: "Not {\"classification\":\"WORKING\"} but\n```json\n{\"classification\":\"TECHNICALLY_BROKEN\"}\n```",
			want:   broken,
		},
		{
			name:   "two objects with prose between give the first that is a verdict, not what lies between",
			answer: `The probe said {"success":false} and so {"classification":"TECHNICALLY_BROKEN"} it is {"classification":"WORKING"}.`,
			want:   broken,
		},
		{
			name:   "a verdict that another object quotes is none",
			answer: `Last time: {"rows":[{"classification":"WORKING"}]}; now {"classification":"TECHNICALLY_BROKEN"}`,
			want:   broken,
		},
		{
			name:   "braces and quotes in strings do not count",
			answer: `{"humanNote":"body was }{ \"}\" \\","classification":"TECHNICALLY_BROKEN"}`,
			want:   Output{Classification: v1alpha1.TechnicallyBroken, HumanNote: `body was }{ "}" \`},
		},
		{name: "a brace in the prose that is never closed", answer: `The {template broke. {"classification":"TECHNICALLY_BROKEN"}`, want: broken},
		{name: "a verdict in an array", answer: `[{"classification":"TECHNICALLY_BROKEN"}]`, want: broken},
		{name: "lower case and spaces", answer: `{"classification":" technically_broken ","scope":"user"}`, want: Output{Classification: v1alpha1.TechnicallyBroken, Scope: v1alpha1.ScopeUser}},
		{name: "an unknown classification is unclear, an unknown scope the job's", answer: `{"classification":"CURSED","scope":"GALAXY"}`, want: Output{Classification: v1alpha1.Unclear,
			Unreadable: []string{"could not be read: classification, scope"}}},
		{
			name:   "fields of the wrong type are empty",
			answer: `{"classification":3,"scope":["USER"],"expectedRecoveryAt":17,"humanNote":{},"userActionHint":false,"cooldownAdjustments":{"a":1}}`,
			want: Output{Classification: v1alpha1.Unclear, Unreadable: []string{
				"could not be read: classification, scope, expectedRecoveryAt, humanNote, userActionHint, cooldownAdjustments"}},
		},
		{
			name:   "an adjustment of the wrong type is dropped, its neighbours stay; a user that is no text is not nobody",
			answer: `{"classification":"UNCLEAR","cooldownAdjustments":[7,{"errorSignature":"a","userId":17,"duration":"PT1M"},{"errorSignature":"b","userId":null,"duration":"PT1M"}]}`,
			want: Output{Classification: v1alpha1.Unclear, Unreadable: []string{"could not be read: cooldownAdjustments"},
				CooldownAdjustments: []v1alpha1.CooldownAdjustment{{ErrorSignature: "b", Duration: "PT1M"}}},
		},
		{
			name:   "what is null or missing is no mistake, a time in words is",
			answer: `{"classification":"WORKING","scope":null,"expectedRecoveryAt":"tomorrow","userActionHint":null,"cooldownAdjustments":null}`,
			want:   Output{Classification: v1alpha1.Working, Unreadable: []string{"could not be read: expectedRecoveryAt"}},
		},
		{name: "of a key that is given twice the last counts", answer: `{"classification":"WORKING","classification":"TECHNICALLY_BROKEN"}`, want: broken},
		{name: "keys in other letters are other keys", answer: `{"Classification":"WORKING","__proto__":{"classification":"WORKING"},"classification":"TECHNICALLY_BROKEN"}`, want: broken},
		{
			name:   "one adjustment more than may be applied is read, so that it shows",
			answer: `{"classification":"UNCLEAR","cooldownAdjustments":[` + strings.Repeat(`{"duration":"PT1M"},`, 99) + `{}]}`,
			want: Output{Classification: v1alpha1.Unclear, CooldownAdjustments: []v1alpha1.CooldownAdjustment{
				{Duration: "PT1M"}, {Duration: "PT1M"}, {Duration: "PT1M"}, {Duration: "PT1M"}, {Duration: "PT1M"}, {Duration: "PT1M"}, {Duration: "PT1M"}, {Duration: "PT1M"}, {Duration: "PT1M"}}},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(tc.answer)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseFindsNoVerdict(t *testing.T) {
	tests := []struct{ name, answer string }{
		{"nothing", ""},
		{"prose", "The tool is broken, I am sure."},
		{"an object without a classification", `{"verdict":"TECHNICALLY_BROKEN"}`},
		{"an object that is cut off", `{"classification":"TECHNICALLY_BROKEN","humanNote":"it`},
		{"no JSON", `{classification: TECHNICALLY_BROKEN}`},
		{"a number that is none", `{"classification":"WORKING","confidence":NaN}`},
		{"nested deeper than any reader goes", strings.Repeat(`{"a":`, 12_000) + `{"classification":"WORKING"}` + strings.Repeat("}", 12_000)},
		{"a verdict behind more than is read", strings.Repeat(" ", maxAnswer) + `{"classification":"WORKING"}`},
		{"a wall of braces", strings.Repeat("{", 1<<20)},
		{"a wall of fences", strings.Repeat("```json{", 1<<17)},
		{"a wall of quotes", strings.Repeat(`{"`, 1<<19)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := Parse(tc.answer); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
}

func TestParseTime(t *testing.T) {
	tests := []struct{ in, want string }{
		{"2026-05-23T15:00:00Z", "2026-05-23T15:00:00Z"},
		{"2026-05-23T15:00Z", "2026-05-23T15:00:00Z"},
		{"2026-05-23t15:00z", "2026-05-23T15:00:00Z"},
		{" 2026-05-23T15:00:30.25Z ", "2026-05-23T15:00:30.25Z"},
		{"2026-05-23T17:00+02:00", "2026-05-23T15:00:00Z"},
		{"2026-05-23T17:00:00+0200", "2026-05-23T15:00:00Z"},
		{"2026-05-23 15:00:00Z", "2026-05-23T15:00:00Z"},
		{"2026-05-23T15:00", "2026-05-23T15:00:00Z"},
		{"2026-05-23", ""},
		{"tomorrow at 15:00", ""},
		{"2026-13-40T99:00Z", ""},
		{"", ""},
	}
	for _, tc := range tests {
		got := ""
		if at := parseTime(tc.in); !at.IsZero() {
			got = at.Format(time.RFC3339Nano)
		}
		if got != tc.want {
			t.Errorf("parseTime(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}

// FuzzParse holds that whatever is answered, what comes out is known, bounded and safe to apply.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"```json\n{\"classification\":\"WORKING\",\"scope\":\"GLOBAL\",\"humanNote\":\"\xff\"}\n```",
		`{"a":1} and {"classification":"X","cooldownAdjustments":[{"errorSignature":"a","duration":"PT1M","userId":"alice"}]}`,
		`{"classification":"TECHNICALLY_BROKEN","expectedRecoveryAt":"9999-12-31T23:59:59Z"}`, "{{{\"", "``````json",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		output, err := Parse(answer)
		if err != nil {
			return
		}
		if !known(output.Classification) || output.Scope != "" && output.Scope.Width() < 0 || len(output.CooldownAdjustments) > maxAdjustments+1 {
			t.Fatalf("unknown or unbounded: %+v", output)
		}
		result := checked(inputOf(), Outcome{Output: output})
		checkAll(t, result)
		describeRows(t, result.in, result.applied.Rows)
	})
}
