package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// env is the API server of all tests of this package.
var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, testenv.Options{}, func(e *testenv.Env) { env = e }))
}

// namespace creates a namespace for one test.
func namespace(t *testing.T, name string) string {
	t.Helper()
	if err := env.Namespace(t.Context(), name, ""); err != nil {
		t.Fatal(err)
	}
	return name
}

// manifest is a file of testdata.
type manifest struct {
	// name is the file's path below testdata, without extension.
	name string
	// header holds the comments at its top that have the form "# key: value".
	header map[string]string
	// objects are its documents.
	objects []*unstructured.Unstructured
}

// manifests reads the files below testdata that match a pattern. They are templates, so that a value of many
// thousand characters, or a list of a thousand elements, is written as briefly as it is thought.
func manifests(t *testing.T, pattern string) []manifest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	var read []manifest
	for _, file := range files {
		m, err := readManifest(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		read = append(read, m)
	}
	return read
}

func readManifest(file string) (manifest, error) {
	name, _ := strings.CutPrefix(strings.TrimSuffix(filepath.ToSlash(file), ".yaml"), "testdata/")
	m := manifest{name: name, header: map[string]string{}}
	source, err := os.ReadFile(file)
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(source)) {
		comment, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		if key, value, ok := strings.Cut(strings.TrimSpace(comment), ": "); ok {
			m.header[key] = value
		}
	}
	rendering, err := template.New(file).Funcs(template.FuncMap{"repeat": func(n int, s string) string { return strings.Repeat(s, n) }}).
		Parse(string(source))
	if err != nil {
		return m, err
	}
	var text strings.Builder
	if err := rendering.Execute(&text, nil); err != nil {
		return m, err
	}
	for document := range strings.SplitSeq(text.String(), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return m, err
		}
		m.objects = append(m.objects, object)
	}
	return m, nil
}
