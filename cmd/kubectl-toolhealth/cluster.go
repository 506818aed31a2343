package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	kclock "k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spf13/cobra"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// clusterTimeout bounds one request to the API server unless another is asked for.
const clusterTimeout = 30 * time.Second

// clusterFlags are how a command reaches a cluster, as its flags say.
type clusterFlags struct {
	operatorNamespace string
	loading           *clientcmd.ClientConfigLoadingRules
	overrides         clientcmd.ConfigOverrides
	// unbounded says that requests may last: watches do.
	unbounded bool
}

// clusterAnnotation marks commands that ask a cluster, and names the role that they need.
const clusterAnnotation = "asks-a-cluster"

// bind adds the flags that kubectl has, too, and says which role lets people use the command. One whose argument is a
// tool completes it.
func (c *clusterFlags) bind(command *cobra.Command, role string) {
	command.Annotations = map[string]string{clusterAnnotation: role}
	if strings.Contains(command.Use, "TOOL") {
		command.ValidArgsFunction = c.completeTool
	}
	c.loading = clientcmd.NewDefaultClientConfigLoadingRules()
	command.Flags().StringVar(&c.operatorNamespace, "operator-namespace", "agrajag-system", "namespace in which the operator runs")
	command.Flags().StringVar(&c.loading.ExplicitPath, "kubeconfig", "", "file that says how to reach the cluster")
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.ContextOverrideFlags.AuthInfoName.LongName = "" // --user is whose health is asked for; --context chooses the kubeconfig's user.
	clientcmd.BindOverrideFlags(&c.overrides, command.Flags(), flags)
}

// connection is a cluster that was reached, and the project in it that a command is about.
type connection struct {
	client.WithWatch
	// warnings are what the API server said beside its answers.
	warnings          *warnings
	project           string
	operatorNamespace string
}

// connect reaches the cluster.
func (c *clusterFlags) connect() (*connection, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.loading, &c.overrides)
	project, _, err := loader.Namespace()
	if err != nil {
		return nil, unreached(err, c.overrides.CurrentContext)
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, unreached(err, c.overrides.CurrentContext)
	}
	if config.Timeout == 0 && !c.unbounded {
		config.Timeout = clusterTimeout
	}
	said := &warnings{}
	config.WarningHandlerWithContext = said
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	reached, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return &connection{WithWatch: reached, warnings: said, project: project, operatorNamespace: c.operatorNamespace}, nil
}

// warnings remember what the API server warns of. Requests may run at the same time.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeaderWithContext remembers a warning.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// String gives all of them.
func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.texts, ". ")
}

// place returns where the project's objects are kept. Who may not read the namespace sees it as its own tenant: told
// is whether that is so.
func (c *connection) place(ctx context.Context) (place tenancy.Place, told bool, err error) {
	namespace := &corev1.Namespace{}
	namespace.Name = c.project
	err = c.Get(ctx, client.ObjectKey{Name: c.project}, namespace)
	if apierrors.IsForbidden(err) {
		return tenancy.PlaceOf(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.project}}, c.operatorNamespace), false, nil
	}
	if err != nil {
		return tenancy.Place{}, false, fmt.Errorf("read namespace %s: %w", c.project, err)
	}
	return tenancy.PlaceOf(namespace, c.operatorNamespace), true, nil
}

// self returns the name by which the API server knows whoever runs the command.
func (c *connection) self(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// rows returns the rows of the project, and those of the tenant and of everybody that may be read. hidden names the
// namespaces whose rows may not.
func (c *connection) rows(ctx context.Context, place tenancy.Place) (rows []v1alpha1.ToolHealth, hidden []string, err error) {
	namespaces := []string{place.Project, place.Tenant, place.Operator}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		var list v1alpha1.ToolHealthList
		err := c.List(ctx, &list, client.InNamespace(namespace))
		switch {
		case apierrors.IsForbidden(err) && namespace != place.Project:
			hidden = append(hidden, namespace)
		case err != nil:
			return nil, nil, fmt.Errorf("list ToolHealths in namespace %s: %w", namespace, err)
		}
		rows = append(rows, list.Items...)
	}
	return rows, hidden, nil
}

// store returns a store of rows that tells of changes of state in the name of whoever runs the command.
func (c *connection) store(s *streams) *health.Store {
	return health.NewStore(health.StoreOptions{Client: c, Live: c, Clock: kclock.RealClock{}, Recorder: recorder{c, s}})
}

// recorder writes Events, as far as whoever runs the command may.
type recorder struct {
	client.Client
	*streams
}

// Eventf writes an Event. That it could not is told, and no reason to stop.
func (r recorder) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	object, ok := regarding.(client.Object)
	if !ok {
		return
	}
	gvk, err := r.GroupVersionKindFor(object)
	if err != nil {
		return
	}
	err = r.Create(context.Background(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), GenerateName: object.GetName() + "-"},
		EventTime:  metav1.NowMicro(), ReportingController: "kubectl-toolhealth", ReportingInstance: "kubectl-toolhealth",
		Action: action, Reason: reason, Type: kind, Note: text.Cut(fmt.Sprintf(note, args...), 1000),
		Regarding: corev1.ObjectReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: object.GetNamespace(),
			Name: object.GetName(), UID: object.GetUID()},
	})
	if err != nil {
		r.note("No Event tells of it: %v", err)
	}
}

// subject says whose row of a tool a command is about.
type subject struct {
	user, session string
	scope         string
}

// bind adds the flags. The scope is that of the user where one is named, else of the project.
func (s *subject) bind(command *cobra.Command) {
	command.Flags().StringVar(&s.user, "user", "", "the row of this user")
	command.Flags().StringVar(&s.session, "session", "", "the row of this session, which is that of --user where it was reported for one")
	command.Flags().StringVar(&s.scope, "scope", "", "SESSION, USER, PROJECT, TENANT or GLOBAL (default: by --user and --session, else PROJECT)")
	completeFlag(command, "scope", v1alpha1.Scopes()...)
}

// key returns the row.
func (s *subject) key(place tenancy.Place, tool string) (health.Key, error) {
	scope := v1alpha1.ScopeProject
	switch {
	case s.scope != "":
		var err error
		if scope, err = parseScope(s.scope); err != nil {
			return health.Key{}, err
		}
	case s.session != "":
		scope = v1alpha1.ScopeSession
	case s.user != "":
		scope = v1alpha1.ScopeUser
	}
	if err := people(s.user, s.session); err != nil {
		return health.Key{}, err
	}
	key, ok := health.KeyFor(place, scope, tool, s.user, s.session)
	if !ok {
		return health.Key{}, fmt.Errorf("--scope %s needs --%s", scope, map[v1alpha1.Scope]string{v1alpha1.ScopeUser: "user", v1alpha1.ScopeSession: "session"}[scope])
	}
	return key, nil
}
