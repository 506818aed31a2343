// Package registry looks up Tools by the name that agents use, as the specification's Tool Registry does, so that
// everybody finds the same one.
package registry

import (
	"context"
	"fmt"
	"net/url"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// CalledAsIndex is the cache's index of Tools by the name that agents use. Find needs it.
const CalledAsIndex = "calledAs"

// IndexCalledAs is the indexer behind CalledAsIndex.
func IndexCalledAs(object client.Object) []string {
	return []string{object.(*v1alpha1.Tool).CalledAs()}
}

// Find returns the Tool that agents of a namespace call by a name: of several the oldest. Nil: there is none.
func Find(ctx context.Context, cache client.Reader, namespace, name string) (*v1alpha1.Tool, error) {
	var tools v1alpha1.ToolList
	// Of those that share a name all but one are left where they are: only that one is copied.
	err := cache.List(ctx, &tools, client.InNamespace(namespace), client.MatchingFields{CalledAsIndex: name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("look up Tool %s: %w", name, err)
	}
	var found *v1alpha1.Tool
	for i := range tools.Items {
		if tool := &tools.Items[i]; found == nil || Older(tool, found) {
			found = tool
		}
	}
	return found.DeepCopy(), nil
}

// Names returns the names of all tools of a namespace that a Tool describes.
func Names(ctx context.Context, cache client.Reader, namespace string) (map[string]bool, error) {
	var tools v1alpha1.ToolList
	if err := cache.List(ctx, &tools, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Tools: %w", err)
	}
	names := make(map[string]bool, len(tools.Items))
	for i := range tools.Items {
		names[tools.Items[i].CalledAs()] = true
	}
	return names, nil
}

// Older orders objects by age, and by name where they are of one second.
func Older(a, b client.Object) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if at.Equal(&bt) {
		return a.GetName() < b.GetName()
	}
	return at.Before(&bt)
}

// EndpointHost returns the host of a Tool's endpoint, with its port if it states one. Empty: there is no Tool, or it
// does not say where the tool is.
func EndpointHost(tool *v1alpha1.Tool) string {
	if tool == nil || tool.Spec.Endpoint == nil {
		return ""
	}
	var raw v1alpha1.URL
	switch endpoint := tool.Spec.Endpoint; {
	case endpoint.MCP != nil:
		raw = endpoint.MCP.URL
	case endpoint.HTTP != nil:
		raw = endpoint.HTTP.URL
	}
	parsed, err := url.Parse(string(raw))
	if err != nil {
		return ""
	}
	return parsed.Host
}
