package checker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// maxCompiled bounds the rule lists that are kept; beyond it they are compiled anew when asked for.
const maxCompiled = 4096

// Cascade holds the effective rules of every project: bundled, then the operator's, the tenant's and the
// project's (design §2). A list is compiled when it is first asked for after a change, never per report.
type Cascade struct {
	reader client.Reader

	mu sync.Mutex
	// changes counts the changes of each namespace's sets.
	changes  map[string]int
	compiled map[tenancy.Place]compiled
	// compiling makes reports that come at once wait for one compilation rather than make one each.
	compiling singleflight.Group
}

type compiled struct {
	rules    *classify.Rules
	problems []classify.Problem
}

// NewCascade returns a Cascade over the ErrorPatternSets that reader finds.
func NewCascade(reader client.Reader) *Cascade {
	return &Cascade{reader: reader, changes: map[string]int{}, compiled: map[tenancy.Place]compiled{}}
}

// Watch makes every change of an ErrorPatternSet count.
func (c *Cascade) Watch(ctx context.Context, from cache.Cache) error {
	informer, err := from.GetInformer(ctx, &v1alpha1.ErrorPatternSet{})
	if err != nil {
		return fmt.Errorf("watch ErrorPatternSets: %w", err)
	}
	forget := func(object any) {
		// A set whose deletion was missed comes wrapped: the key says as much.
		if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			namespace, _, _ := strings.Cut(key, "/")
			c.Forget(namespace)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: forget, DeleteFunc: forget,
		UpdateFunc: func(before, after any) {
			// A status write changes no rule.
			if before.(*v1alpha1.ErrorPatternSet).Generation != after.(*v1alpha1.ErrorPatternSet).Generation {
				forget(after)
			}
		},
	})
	return err
}

// Forget drops the compiled lists that hold sets of a namespace. Those of other tenants stay.
func (c *Cascade) Forget(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes[namespace]++
	maps.DeleteFunc(c.compiled, func(place tenancy.Place, _ compiled) bool {
		return namespace == place.Project || namespace == place.Tenant || namespace == place.Operator
	})
}

// version counts the changes that concern a place. The caller holds the lock.
func (c *Cascade) version(place tenancy.Place) int {
	return c.changes[place.Project] + c.changes[place.Tenant] + c.changes[place.Operator]
}

// Rules returns the effective rules of a place.
func (c *Cascade) Rules(ctx context.Context, place tenancy.Place) (*classify.Rules, error) {
	list, err := c.get(ctx, place)
	return list.rules, err
}

// Compiled returns the effective rules of a place and what is wrong with the entries of its sets.
func (c *Cascade) Compiled(ctx context.Context, place tenancy.Place) (*classify.Rules, []classify.Problem, error) {
	list, err := c.get(ctx, place)
	return list.rules, list.problems, err
}

// CompiledWith is Compiled as it would be once a set is stored, in the place of the one of its name if there is one.
// Nothing of it is kept.
func (c *Cascade) CompiledWith(ctx context.Context, place tenancy.Place, set *v1alpha1.ErrorPatternSet) (*classify.Rules, []classify.Problem, error) {
	layers, err := Layers(ctx, c.reader, place, set)
	if err != nil {
		return nil, nil, err
	}
	rules, problems := classify.Compile(layers...)
	return rules, problems, nil
}

func (c *Cascade) get(ctx context.Context, place tenancy.Place) (compiled, error) {
	c.mu.Lock()
	list, ok := c.compiled[place]
	version := c.version(place)
	c.mu.Unlock()
	if ok {
		return list, nil
	}
	made, err, _ := c.compiling.Do(fmt.Sprintf("%v %d", place, version), func() (any, error) { return c.compile(ctx, place, version) })
	if err != nil {
		return compiled{}, err
	}
	return made.(compiled), nil
}

// compile makes a place's list, and keeps it unless a change came meanwhile.
func (c *Cascade) compile(ctx context.Context, place tenancy.Place, version int) (compiled, error) {
	layers, err := Layers(ctx, c.reader, place, nil)
	if err != nil {
		return compiled{}, err
	}
	var list compiled
	list.rules, list.problems = classify.Compile(layers...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version(place) == version { // Else what was read may be outdated.
		if len(c.compiled) >= maxCompiled {
			clear(c.compiled)
		}
		c.compiled[place] = list
	}
	return list, nil
}

// Layers reads the levels of a place's cascade, from the bundled rules to the project's sets. A set that is given
// takes the place of the one of its name, or is added. One namespace is one level, even where it stands for two.
func Layers(ctx context.Context, reader client.Reader, place tenancy.Place, with *v1alpha1.ErrorPatternSet) ([]classify.Layer, error) {
	layers := []classify.Layer{classify.Bundled()}
	seen := map[string]bool{}
	for _, level := range []struct{ name, namespace string }{
		{"operator", place.Operator}, {"tenant", place.Tenant}, {"project", place.Project},
	} {
		if seen[level.namespace] {
			continue
		}
		seen[level.namespace] = true
		var sets v1alpha1.ErrorPatternSetList
		if err := reader.List(ctx, &sets, client.InNamespace(level.namespace)); err != nil {
			return nil, fmt.Errorf("list ErrorPatternSets of namespace %s: %w", level.namespace, err)
		}
		if with != nil && with.Namespace == level.namespace {
			sets.Items = slices.DeleteFunc(sets.Items, func(s v1alpha1.ErrorPatternSet) bool { return s.Name == with.Name })
			sets.Items = append(sets.Items, *with)
		}
		slices.SortFunc(sets.Items, func(a, b v1alpha1.ErrorPatternSet) int { return strings.Compare(a.Name, b.Name) })
		layers = append(layers, classify.LayerOf(level.name, sets.Items))
	}
	return layers, nil
}
