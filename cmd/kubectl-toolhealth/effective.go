package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// clusterTimeout bounds one request to the API server unless another is asked for.
const clusterTimeout = 30 * time.Second

type effectiveOptions struct {
	*streams
	output, operatorNamespace string
	loading                   *clientcmd.ClientConfigLoadingRules
	overrides                 clientcmd.ConfigOverrides
}

func newEffective(s *streams) *cobra.Command {
	o := effectiveOptions{streams: s, loading: clientcmd.NewDefaultClientConfigLoadingRules()}
	c := &cobra.Command{
		Use:   "effective -n NAMESPACE",
		Short: "Show the rules that a cluster uses for a namespace",
		Long: `Show the rules that a cluster uses for a project's namespace, in the order in which they are tried, each with the
level and the ErrorPatternSet it came from: the bundled rules, then the operator's sets, the tenant's and the project's
over them. Entries that are not in force are told on the standard error.

It reads the namespace and the ErrorPatternSets of the three namespaces. ` + exitCodes,
		Example: `  kubectl toolhealth patterns effective -n shop`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	outputFlag(c, &o.output, "table", "json", "yaml")
	c.Flags().StringVar(&o.operatorNamespace, "operator-namespace", "agrajag-system", "namespace in which the operator runs")
	c.Flags().StringVar(&o.loading.ExplicitPath, "kubeconfig", "", "file that says how to reach the cluster")
	clientcmd.BindOverrideFlags(&o.overrides, c.Flags(), clientcmd.RecommendedConfigOverrideFlags(""))
	return c
}

// inForce is a rule in force, as it is shown.
type inForce struct {
	Layer string `json:"layer"`
	// Set is the namespace and name of the ErrorPatternSet; empty for a bundled rule.
	Set     string                `json:"set,omitempty"`
	Path    string                `json:"path"`
	Pattern v1alpha1.ErrorPattern `json:"pattern"`
}

func (o *effectiveOptions) run(ctx context.Context) error {
	rules, problems, err := o.fromCluster(ctx)
	if err != nil {
		return err
	}
	for _, p := range problems {
		o.note("warning: %s", p)
	}
	entries := rules.Entries()
	if o.output != "table" {
		list := make([]inForce, len(entries))
		for i, e := range entries {
			list[i] = inForce{e.Layer, e.Set, e.Path, e.Pattern}
		}
		return o.object(o.output, list)
	}
	var rows [][]string
	for i, e := range entries {
		p := &e.Pattern
		rows = append(rows, []string{strconv.Itoa(i + 1), e.Layer, e.Set, string(p.ID), string(p.Signature), string(p.Classification),
			p.Cooldown, string(p.HealthAction)})
	}
	return o.table([]string{"#", "LAYER", "SET", "RULE", "SIGNATURE", "CLASSIFICATION", "COOLDOWN", "HEALTHACTION"}, rows)
}

// fromCluster compiles the rules of the namespace exactly as the checker does.
func (o *effectiveOptions) fromCluster(ctx context.Context) (*classify.Rules, []classify.Problem, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(o.loading, &o.overrides)
	name, _, err := loader.Namespace()
	if err != nil {
		return nil, nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("find the cluster: %w", err)
	}
	if config.Timeout == 0 {
		config.Timeout = clusterTimeout
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, nil, err
		}
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, fmt.Errorf("reach the cluster: %w", err)
	}
	var namespace corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, &namespace); err != nil {
		return nil, nil, fmt.Errorf("read the namespace, which names the tenant: %w", err)
	}
	layers, err := checker.Layers(ctx, reader, tenancy.PlaceOf(&namespace, o.operatorNamespace), nil)
	if err != nil {
		return nil, nil, err
	}
	rules, problems := classify.Compile(layers...)
	return rules, problems, nil
}
