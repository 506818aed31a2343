package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	// page is how many objects are listed at once.
	page = 500
	// lookEvery is how often the cache is asked about an object that it does not hold yet.
	lookEvery = 200 * time.Millisecond
	// listEvery is how often a list is tried again that failed.
	listEvery = time.Second
)

// catchUp waits until the cache holds all that the API server holds at the beginning of a term. After an outage the lease
// may be won half a minute before the last watch is opened again; whoever led meanwhile has written what must not be
// done twice. Of the objects only the metadata is read. An error says that ctx has ended.
func (m *Manager) catchUp(ctx context.Context) error {
	for _, kind := range m.options.Kinds {
		if err := wait.PollUntilContextCancel(ctx, listEvery, true, func(ctx context.Context) (bool, error) {
			err := m.catchUpWith(ctx, kind)
			if err != nil && ctx.Err() == nil {
				logr.FromContextOrDiscard(ctx).Error(err, "What others did not known yet: trying again")
			}
			return err == nil, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// catchUpWith waits until the cache holds all objects of a kind, as they are now or as they were changed since.
func (m *Manager) catchUpWith(ctx context.Context, kind client.Object) error {
	gvk, err := apiutil.GVKForObject(kind, m.GetScheme())
	if err != nil {
		return err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk)
	for {
		if err := m.GetAPIReader().List(ctx, list, client.Limit(page), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			if err := m.awaitObject(ctx, kind, gvk, &list.Items[i]); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			return nil
		}
	}
}

// awaitObject waits until the cache holds an object, unless it is gone.
func (m *Manager) awaitObject(ctx context.Context, kind client.Object, gvk schema.GroupVersionKind, object *metav1.PartialObjectMetadata) error {
	key := client.ObjectKeyFromObject(object)
	cached := kind.DeepCopyObject().(client.Object)
	return wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		err := m.GetClient().Get(ctx, key, cached)
		if err == nil {
			order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), object.ResourceVersion)
			return order >= 0, err
		}
		if !apierrors.IsNotFound(err) {
			return false, err
		}
		present := &metav1.PartialObjectMetadata{}
		present.SetGroupVersionKind(gvk)
		if err := m.GetAPIReader().Get(ctx, key, present); !apierrors.IsNotFound(err) {
			return false, err
		}
		return true, nil
	})
}
