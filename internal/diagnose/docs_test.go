package diagnose

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// TestTheDocumentationIsRight holds what docs/diagnosis.md shows to the code.
func TestTheDocumentationIsRight(t *testing.T) {
	data, err := os.ReadFile("../../docs/diagnosis.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	t.Run("the example of a verdict can be read in full", func(t *testing.T) {
		output, err := Parse(doc)
		if err != nil || len(output.Unreadable) > 0 || output.Classification != v1alpha1.TechnicallyBroken || len(output.CooldownAdjustments) != 1 {
			t.Errorf("it is read as %+v, %v", output, err)
		}
	})
	t.Run("limits", func(t *testing.T) {
		l := DefaultLimits()
		for _, row := range []string{
			fmt.Sprintf("| probes (`maxProbes`) | %d | 0 to %d |", l.MaxProbes, v1alpha1.MaxProbeAudits),
			fmt.Sprintf("(`maxIterations`) | %d |", l.MaxIterations), fmt.Sprintf("| calls looked at in one turn | %d |", maxCalls),
			fmt.Sprintf("(`tokenTarget`, `tokenCeiling`) | %d, %d | %d to %d, the ceiling from %d; a long report with long histories needs up to %d ", l.TokenTarget, l.TokenCeiling, minTokenTarget, maxTokenLimit, minTokenCeiling, WorstFirstCall),
			fmt.Sprintf("(`activeDeadlineSeconds`) | %.0f |", l.Deadline.Seconds()), fmt.Sprintf("(`maxScope`) | `%s` |", l.MaxScope),
			fmt.Sprintf("| %d, %d, %d bytes |", maxBody, maxMessage, maxHeader), fmt.Sprintf("| headers in the prompt | %d |", maxHeaders),
			fmt.Sprintf("| response of a failed probe | %d bytes |", maxResponse), fmt.Sprintf("| one answer of the model | %d bytes |", maxAnswer),
			fmt.Sprintf("| `humanNote` | text, %d bytes |", maxNote), fmt.Sprintf("| text, %d bytes, with", maxHint), fmt.Sprintf("(%d transitions each)", maxHistory),
			fmt.Sprintf("at most %d, ISO-8601", maxAdjustments), fmt.Sprintf("else for %.0f minutes |", unclearRecovery.Minutes()),
		} {
			if !strings.Contains(doc, row) {
				t.Errorf("it lacks %q", row)
			}
		}
	})
	t.Run("the sample's ceiling pays for any first call", func(t *testing.T) {
		sample, err := os.ReadFile("../../config/samples/diagnosisrecipe.yaml")
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^  tokenCeiling: (\d+)$`).FindSubmatch(sample)
		if found == nil {
			t.Fatal("it has none")
		}
		if ceiling, err := strconv.Atoi(string(found[1])); err != nil || ceiling < WorstFirstCall {
			t.Errorf("it is %s, and a first call may cost %d", found[1], WorstFirstCall)
		}
	})
	t.Run("every class has its evidence", func(t *testing.T) {
		_, table, _ := strings.Cut(doc, "### Evidence")
		table, _, _ = strings.Cut(table, "### Rows")
		for _, class := range []v1alpha1.Classification{v1alpha1.TechnicallyBroken, v1alpha1.UserSpecificTechnical, v1alpha1.UserPermission, v1alpha1.UserInput,
			v1alpha1.Intermittent, v1alpha1.Working, v1alpha1.Unclear} {
			if !regexp.MustCompile("(?m)^\\| .*`" + string(class) + "`").MatchString(table) {
				t.Errorf("%s has none", class)
			}
		}
	})
	t.Run("what stands in brackets is what the code says", func(t *testing.T) {
		_, table, _ := strings.Cut(doc, "| In brackets | Means |")
		source := sources(t)
		found := regexp.MustCompile("(?m)^  \\| (`.+`) \\|").FindAllStringSubmatch(table, -1)
		if len(found) < 8 {
			t.Fatalf("only %d reasons are explained", len(found))
		}
		for _, row := range found {
			for _, reason := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
				if part := strings.Trim(reason[1], " …"); !strings.Contains(source, part) {
					t.Errorf("the code never says %q", part)
				}
			}
		}
	})
}

// sources returns the code of the package.
func sources(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}
