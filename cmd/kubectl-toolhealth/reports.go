package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
)

// report is a failed call, as a file describes it.
type report struct {
	id   string
	call classify.Call
	err  v1alpha1.ToolError
}

// reportFile is how a report is written in a file; other fields are for people and not looked at.
type reportFile struct {
	ID             string           `yaml:"id"`
	ToolName       string           `yaml:"toolName"`
	HTTPStatus     *int32           `yaml:"httpStatus"`
	Headers        map[string]texts `yaml:"headers"`
	Body           string           `yaml:"body"`
	Message        string           `yaml:"message"`
	ExceptionType  texts            `yaml:"exceptionType"`
	ExceptionTypes texts            `yaml:"exceptionTypes"`
	ErrorCode      string           `yaml:"errorCode"`
	Host           string           `yaml:"host"`
	EndpointHost   string           `yaml:"endpointHost"`
	Date           *time.Time       `yaml:"date"`
}

// texts is one text or a list of them.
type texts []string

// UnmarshalYAML reads scalars as they are written, so that 0x10 or 1.50 stays what the answer said.
func (t *texts) UnmarshalYAML(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
	case n.Kind == yaml.ScalarNode:
		*t = texts{n.Value}
	case n.Kind == yaml.SequenceNode:
		for _, element := range n.Content {
			if element.Kind != yaml.ScalarNode {
				return at(element, "must be text")
			}
			*t = append(*t, element.Value)
		}
	default:
		return at(n, "must be text or a list of texts")
	}
	return nil
}

func at(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: %w", n.Line, fmt.Errorf(format, args...))
}

// evidence reports whether the report says anything about an error.
func (f *reportFile) evidence() bool {
	return f.HTTPStatus != nil || len(f.Headers)+len(f.Body)+len(f.Message)+len(f.ExceptionType)+len(f.ExceptionTypes)+len(f.ErrorCode) > 0
}

func (f *reportFile) report() report {
	e := v1alpha1.ToolError{HTTPStatus: f.HTTPStatus, Body: f.Body, Message: f.Message, ErrorCode: f.ErrorCode, Host: f.Host}
	for _, name := range append(f.ExceptionType, f.ExceptionTypes...) {
		e.ExceptionTypes = append(e.ExceptionTypes, v1alpha1.MatchText(name))
	}
	if len(f.Headers) > 0 {
		e.Headers = make(map[string]v1alpha1.HeaderValue, len(f.Headers))
	}
	for name, values := range f.Headers {
		e.Headers[name] = v1alpha1.HeaderValue(strings.Join(values, ", "))
	}
	if f.Date != nil {
		date := metav1.NewTime(*f.Date)
		e.Date = &date
	}
	return report{id: f.ID, call: classify.Call{Tool: f.ToolName, EndpointHost: f.EndpointHost}, err: e}
}

// reports reads a file of reports: a list, one report, DiagnosisJobs, or the cases of a test file.
func (s *streams) reports(name string) ([]report, error) {
	data, err := s.read(name)
	if err != nil {
		return nil, err
	}
	var all []report
	empty := true
	err = eachDocument(data, func(n *yaml.Node) error {
		empty = false
		found, err := reportsIn(n, len(all))
		all = append(all, found...)
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", label(name), err)
	case empty:
		return nil, fmt.Errorf("%s: holds no report", label(name))
	}
	return all, nil
}

// eachDocument calls do for each YAML document that is not empty. Aliases are refused: nobody needs them in a report,
// and a few lines of them stand for gigabytes.
func eachDocument(data []byte, do func(*yaml.Node) error) (err error) {
	defer func() { // The YAML library panics on its own errors.
		if recover() != nil {
			err = errors.New("is not understood as YAML")
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		switch err := decoder.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("is no YAML: %w", err)
		}
		if err := noAlias(&doc); err != nil {
			return err
		}
		for _, n := range doc.Content {
			if n.ShortTag() == "!!null" {
				continue
			}
			if err := do(n); err != nil {
				return err
			}
		}
	}
}

func noAlias(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		return at(n, "uses a YAML alias; write the value itself")
	}
	for _, child := range n.Content {
		if err := noAlias(child); err != nil {
			return err
		}
	}
	return nil
}

// reportsIn reads the reports of a node. Those without an id are numbered from after the given count.
func reportsIn(n *yaml.Node, count int) ([]report, error) {
	if list := listIn(n); list != nil {
		var all []report
		for _, item := range list.Content {
			found, err := reportsIn(item, count+len(all))
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, at(n, "must be a report, or a list of reports")
	}
	r, err := reportIn(n)
	if err != nil {
		return nil, err
	}
	if r.id == "" {
		r.id = fmt.Sprintf("#%d", count+1)
	}
	return []report{r}, nil
}

// listIn is the list that a node is or holds, or nil.
func listIn(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.SequenceNode {
		return n
	}
	for _, name := range []string{"items", "cases"} {
		if list := valueAt(n, name); list != nil && list.Kind == yaml.SequenceNode {
			return list
		}
	}
	return nil
}

// reportIn reads one report, wherever a mapping holds it.
func reportIn(n *yaml.Node) (report, error) {
	var wrapper struct {
		Kind     string
		Name     string
		Metadata struct{ Name string }
		Spec     struct {
			ToolName string `yaml:"toolName"`
			Error    *reportFile
		}
		Report *reportFile
	}
	var f reportFile
	if valueAt(n, "kind") == nil && valueAt(n, "report") == nil {
		if err := n.Decode(&f); err != nil {
			return report{}, err
		}
		if f.ID == "" && !f.evidence() {
			return report{}, at(n, "is no report: it has none of httpStatus, headers, body, message, exceptionType, errorCode")
		}
		return f.report(), nil
	}
	if err := n.Decode(&wrapper); err != nil {
		return report{}, err
	}
	switch {
	case wrapper.Report != nil:
		f = *wrapper.Report
		f.ID = wrapper.Name
	case wrapper.Kind != "DiagnosisJob":
		return report{}, at(n, "is a %s; reports are DiagnosisJobs or plain", clip(wrapper.Kind))
	case wrapper.Spec.Error == nil:
		return report{}, at(n, "is a DiagnosisJob without spec.error, which rules do not decide")
	default:
		f = *wrapper.Spec.Error
		f.ID, f.ToolName = wrapper.Metadata.Name, wrapper.Spec.ToolName
	}
	return f.report(), nil
}

// valueAt is the value of a field of a mapping, or nil where there is none.
func valueAt(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}
