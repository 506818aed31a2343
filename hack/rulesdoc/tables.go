package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
)

var (
	// section is a heading among the rules, as in "# ---- 3. Limits ----".
	section = regexp.MustCompile(`^ *# -+ (\d+\. .*?) -+$`)
	// ruleID is the line on which a rule begins.
	ruleID = regexp.MustCompile(`^ *- id: (\S+)$`)
)

// tables are the rules of a file, a table for each of its sections.
func tables(data []byte) (string, error) {
	entries, problems := classify.Parse(data)
	if len(problems) > 0 {
		return "", fmt.Errorf("the rules: %v", problems)
	}
	sections := sectionsOf(string(data))
	var out strings.Builder
	fmt.Fprintf(&out, "%d rules, in the order in which they are tried.\n", len(entries))
	last := "none"
	for i := range entries {
		p := &entries[i].Pattern
		if s := sections[string(p.ID)]; s != last {
			last = s
			if s != "" {
				fmt.Fprintf(&out, "\n#### %s\n", s)
			}
			out.WriteString("\n| Rule | Matches | Means | Cooldown | Health | Why |\n|---|---|---|---|---|---|\n")
		}
		id, signature := code(string(p.ID)), string(p.Signature)
		if p.Fingerprint {
			signature += "-<fingerprint>"
		}
		if signature != string(p.ID) {
			id += "<br>" + code(signature)
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s |\n", id, conditions(&p.Match), p.Classification, p.Cooldown, p.HealthAction,
			prose(p.Note))
	}
	return out.String(), nil
}

// sectionsOf is the heading above each rule.
func sectionsOf(file string) map[string]string {
	sections := map[string]string{}
	current := ""
	for _, line := range strings.Split(file, "\n") {
		if m := section.FindStringSubmatch(line); m != nil {
			current = m[1]
		}
		if m := ruleID.FindStringSubmatch(line); m != nil {
			sections[m[1]] = current
		}
	}
	return sections
}

// conditions are the selectors of a match, all of which must hold.
func conditions(m *v1alpha1.ErrorMatch) string {
	var all []string
	add := func(name string, values ...string) {
		for i := range values {
			values[i] = code(values[i])
		}
		if len(values) > 0 {
			all = append(all, name+" "+strings.Join(values, ", "))
		}
	}
	add("toolName", texts(m.ToolName)...)
	if m.HTTPStatus != nil {
		add("httpStatus", fmt.Sprint(*m.HTTPStatus))
	}
	if len(m.HTTPStatusRange) == 2 {
		add("httpStatusRange", fmt.Sprintf("%d–%d", m.HTTPStatusRange[0], m.HTTPStatusRange[1]))
	}
	add("httpStatusIn", texts(m.HTTPStatusIn)...)
	if m.Host != "" {
		add("host", string(m.Host))
	}
	add("exceptionType", texts(m.ExceptionType)...)
	if m.ErrorCode != "" {
		add("errorCode", m.ErrorCode)
	}
	add("errorCodeIn", m.ErrorCodeIn...)
	for _, h := range m.Header {
		switch {
		case h.Equals != "":
			add("header", h.Name+" = "+h.Equals)
		case h.Contains != "":
			add("header", h.Name+" contains "+h.Contains)
		default:
			add("header", fmt.Sprintf("%s present: %v", h.Name, h.Present == nil || *h.Present))
		}
	}
	for _, f := range m.JSONField {
		add("jsonField "+code(f.Pointer)+" in", f.In...)
	}
	add("bodyContains", texts(m.BodyContains)...)
	add("bodyContainsAll", texts(m.BodyContainsAll)...)
	add("messageContains", texts(m.MessageContains)...)
	add("messageContainsAll", texts(m.MessageContainsAll)...)
	if len(all) == 0 {
		return "every error"
	}
	return strings.Join(all, "<br>")
}

func texts[T any](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = fmt.Sprint(v)
	}
	return out
}

// code is a text between backticks, in a cell.
func code(s string) string {
	fence := "`"
	if strings.Contains(s, "`") {
		fence = "``"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || strings.HasPrefix(s, " ") && strings.HasSuffix(s, " ") {
		s = " " + s + " "
	}
	return fence + cell(s) + fence
}

// prose is a text in a cell, none of whose characters is taken for markup.
func prose(s string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`).Replace(cell(strings.TrimSpace(s)))
}

func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}
