package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// cluster starts an API server with a project shop of the tenant acme, a set on each level, and returns a kubeconfig
// for a person who may read them, one for that person at work in shop, and one for a person who may not.
func cluster(t *testing.T) (reader, inShop, stranger string) {
	t.Helper()
	env, err := testenv.Start(testenv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	must(env.Namespace(ctx, "acme", ""))
	must(env.Namespace(ctx, "shop", "acme"))
	must(env.Namespace(ctx, "solo", ""))
	must(env.Namespace(ctx, "foreign", ""))
	must(env.Namespace(ctx, "alone", "foreign"))
	must(env.ApplyYAML(ctx, set(testenv.OperatorNamespace, "o", rule("from-operator", "O", ""))))
	must(env.ApplyYAML(ctx, set("acme", "t", rule("from-tenant", "T", ", before: http-403"), rule("http-404-endpoint", "T2", ""))))
	must(env.ApplyYAML(ctx, set("shop", "second", rule("from-shop", "S", ""), rule("twice", "S2", ""))))
	must(env.ApplyYAML(ctx, set("shop", "first", rule("twice", "S3", ", cooldown: PT5M"))))
	for _, namespace := range []string{testenv.OperatorNamespace, "acme", "shop", "solo"} {
		must(env.Bind(ctx, namespace, "agrajag-viewer", "reader"))
	}
	must(env.Bind(ctx, "alone", "agrajag-viewer", "reader")) // but not in its tenant's
	dir := t.TempDir()
	reader, inShop, stranger = filepath.Join(dir, "reader"), filepath.Join(dir, "in-shop"), filepath.Join(dir, "stranger")
	must(env.KubeConfig("reader", "default", reader))
	must(env.KubeConfig("reader", "shop", inShop))
	must(env.KubeConfig("stranger", "default", stranger))
	return reader, inShop, stranger
}

// TestEffective: the list that the checker uses, with level and set, as an ordinary person reads it.
func TestEffective(t *testing.T) {
	reader, inShop, stranger := cluster(t)
	for _, tc := range []struct {
		namespace string
		want      []string
	}{
		{"shop", []string{"tenant acme/t from-tenant", "tenant acme/t http-404-endpoint", "operator agrajag-system/o from-operator",
			"project shop/first twice", "project shop/second from-shop"}},
		{"acme", []string{"tenant acme/t from-tenant", "tenant acme/t http-404-endpoint", "operator agrajag-system/o from-operator"}},
		{"solo", []string{"operator agrajag-system/o from-operator"}},
	} {
		t.Run(tc.namespace, func(t *testing.T) {
			r := patterns(t, "", "effective", "-n", tc.namespace, "--kubeconfig", reader, "-o", "json")
			var list []inForce
			if err := json.Unmarshal([]byte(r.Out), &list); err != nil || r.Code != exitFine {
				t.Fatalf("%v, exit code %d, %s", err, r.Code, r.Err)
			}
			var own []string
			bundled := 0
			for _, e := range list {
				if e.Layer == "bundled" {
					bundled++
					continue
				}
				own = append(own, fmt.Sprintf("%s %s %s", e.Layer, e.Set, e.Pattern.ID))
			}
			if diff := cmp.Diff(tc.want, own); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if all := len(classify.Bundled().Entries); bundled < all-1 || list[len(list)-1].Pattern.ID != "fallback" {
				t.Errorf("%d of %d bundled rules, the last is %s", bundled, all, list[len(list)-1].Pattern.ID)
			}
			warned := strings.Contains(r.Err, `warning: shop/second spec.patterns[1] ("twice"): id: stands earlier too, at shop/first spec.patterns[0]`)
			if warned != (tc.namespace == "shop") {
				t.Errorf("on the standard error: %s", r.Err)
			}
		})
	}
	t.Run("as a table", func(t *testing.T) {
		r := patterns(t, "", "effective", "-n", "shop", "--kubeconfig", reader)
		for _, want := range []string{"# LAYER SET RULE SIGNATURE CLASSIFICATION COOLDOWN HEALTHACTION", "project shop/first twice s UNCLEAR PT5M -"} {
			if !strings.Contains(strings.Join(strings.Fields(r.Out), " "), want) {
				t.Errorf("the table lacks %q: %s", want, r.Err)
			}
		}
	})
	t.Run("the namespace of the kubeconfig", func(t *testing.T) {
		if r := patterns(t, "", "effective", "--kubeconfig", inShop, "-o", "yaml"); r.Code != exitFine || !strings.Contains(r.Out, "set: shop/first") {
			t.Errorf("exit code %d, %s", r.Code, r.Err)
		}
	})
	t.Run("another operator's namespace", func(t *testing.T) {
		r := patterns(t, "", "effective", "-n", "solo", "--operator-namespace", "shop", "--kubeconfig", reader, "-o", "json")
		if r.Code != exitFine || !strings.Contains(r.Out, `"layer": "operator"`) || !strings.Contains(r.Out, `"set": "shop/first"`) {
			t.Errorf("exit code %d, %s", r.Code, r.Err)
		}
	})
	for name, args := range map[string][]string{
		"forbidden":                        {"-n", "shop", "--kubeconfig", stranger},
		"the role agrajag-viewer lets you": {"-n", "alone", "--kubeconfig", reader},
		"not found":                        {"-n", "nowhere", "--kubeconfig", reader},
		`in the namespace "foreign"`:       {"-n", "foreign", "--kubeconfig", reader},
		"connect":                          {"-n", "shop", "--kubeconfig", reader, "--server", "https://127.0.0.1:1"},
	} {
		t.Run("an answer that cannot be had: "+name, func(t *testing.T) {
			r := patterns(t, "", append([]string{"effective"}, args...)...)
			if r.Code != exitUnusable || r.Out != "" || !strings.Contains(r.Err, name) && name != "not found" {
				t.Errorf("%+v", r)
			}
		})
	}
}
