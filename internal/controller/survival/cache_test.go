package survival

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/registry"
)

// versions is everything that was written, in order: what a cache may show is the state after any number of writes.
type versions []client.Object

// add notes an object as it is in the API server now.
func (v *versions) add(object client.Object) {
	*v = append(*v, object.DeepCopyObject().(client.Object))
}

// beforeLast returns how many writes there were before the last one of a kind; all, if there was none.
func (v versions) beforeLast(kind client.Object) int {
	for i := len(v) - 1; i >= 0; i-- {
		if reflect.TypeOf(v[i]) == reflect.TypeOf(kind) {
			return i
		}
	}
	return len(v)
}

// get reads an object into out as it was after the first n writes.
func (v versions) get(n int, key client.ObjectKey, out client.Object) error {
	for i := n - 1; i >= 0; i-- {
		if reflect.TypeOf(v[i]) == reflect.TypeOf(out) && client.ObjectKeyFromObject(v[i]) == key {
			reflect.ValueOf(out).Elem().Set(reflect.ValueOf(v[i].DeepCopyObject()).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", out)}, key.Name)
}

// list reads the objects of a kind as they were after the first n writes.
func (v versions) list(n int, out client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	pointer, err := meta.GetItemsPtr(out)
	if err != nil {
		return err
	}
	kind := reflect.TypeOf(pointer).Elem().Elem()
	latest := map[client.ObjectKey]client.Object{}
	var order []client.ObjectKey
	for _, object := range v[:n] {
		if reflect.TypeOf(object).Elem() != kind || o.Namespace != "" && object.GetNamespace() != o.Namespace {
			continue
		}
		key := client.ObjectKeyFromObject(object)
		if latest[key] == nil {
			order = append(order, key)
		}
		latest[key] = object
	}
	var found []runtime.Object
	for _, key := range order {
		if o.FieldSelector == nil || isIndexed(latest[key], o) {
			found = append(found, latest[key].DeepCopyObject())
		}
	}
	return meta.SetList(out, found)
}

// isIndexed reports whether an object has the value that an index is asked for, as a manager's cache would know.
func isIndexed(object client.Object, o client.ListOptions) bool {
	indexes := map[string]client.IndexerFunc{checker.JobToolIndex: checker.IndexJobTool, registry.CalledAsIndex: registry.IndexCalledAs}
	for _, requirement := range o.FieldSelector.Requirements() {
		if !slices.Contains(indexes[requirement.Field](object), requirement.Value) {
			return false
		}
	}
	return true
}

// reader reads through a function that says how much of what was written is seen.
type reader struct {
	read func(ctx context.Context, what string, from func(n int) error) error
	all  *versions
}

func (r reader) get(ctx context.Context, key client.ObjectKey, out client.Object) error {
	return r.read(ctx, fmt.Sprintf("get %T", out), func(n int) error { return r.all.get(n, key, out) })
}

func (r reader) list(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	return r.read(ctx, fmt.Sprintf("list %T", out), func(n int) error { return r.all.list(n, out, opts...) })
}
