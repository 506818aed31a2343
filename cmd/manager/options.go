package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/agrajag-dev/agrajag/internal/budget"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/leader"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/restapi"
)

// options are the settings of a manager.
type options struct {
	kubeconfig       string
	namespace        string
	metricsAddress   string
	healthAddress    string
	webhookHost      string
	webhookPort      int
	webhookCertDir   string
	apiAddress       string
	apiCertDir       string
	apiAudience      string
	leaderElect      bool
	lease            time.Duration
	models           string
	modelEndpoint    string
	modelKeyFile     string
	probeAllow       string
	probeDeny        string
	freshnessWindow  time.Duration
	diagnosisWorkers int
	jobTTL           time.Duration
	sessionTTL       time.Duration
	userRowTTL       time.Duration
	maxWait          time.Duration
	maxRows          int
	maxUnknownRows   int
	budgets          budget.Limits
	perRow           int
}

// maxWorkers bounds the diagnoses that run at once: at worst, if all of them read large answers, they take 2 GiB of memory.
const maxWorkers = 128

// bind declares the flags.
func (o *options) bind(f *flag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; without it the service account of the pod, or $KUBECONFIG, is used")
	f.StringVar(&o.namespace, "namespace", "agrajag-system", "the operator's own namespace: rules and health rows there are for everybody")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics; 0 serves none")
	f.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.StringVar(&o.webhookHost, "webhook-host", "", "address on which the webhooks are served; empty: every one")
	f.IntVar(&o.webhookPort, "webhook-port", 9443, "port of the webhooks")
	f.StringVar(&o.webhookCertDir, "webhook-cert-dir", "/etc/agrajag/webhook", "directory of the webhooks' tls.crt and tls.key; a renewed certificate is taken up")
	f.StringVar(&o.apiAddress, "api-bind-address", ":8443", "address of the REST API; 0 serves none")
	f.StringVar(&o.apiCertDir, "api-cert-dir", "", "directory of the REST API's tls.crt and tls.key; empty: that of the webhooks")
	f.StringVar(&o.apiAudience, "api-audience", restapi.DefaultAudience, "audience that the bearer tokens of the REST API's callers must be for")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "let one of several managers run controllers and diagnoses; webhooks run on all")
	f.DurationVar(&o.lease, "leader-elect-lease-duration", leader.DefaultLease, "how long after the leader last renewed its lease another one may lead; a leader that cannot renew it for four fifths of that stops its controllers and diagnoses, and stands for election again; from 3s to 5m")
	f.StringVar(&o.models, "model", "", "model that diagnoses, or several separated by commas that are tried in order; empty: the built-in diagnostician, which needs none")
	f.StringVar(&o.modelEndpoint, "model-endpoint", "https://api.openai.com/v1", "base URL of the OpenAI-compatible API that serves --model")
	f.StringVar(&o.modelKeyFile, "model-key-file", "", "file with the API key, mounted from a Secret; it is read for each diagnosis; empty: no key is sent")
	f.Func("probe-allow", "CIDRs, separated by commas, that probes may reach although they are refused by default (loopback, link-local, cloud metadata, the API server); may be repeated", listed(&o.probeAllow))
	f.Func("probe-deny", "CIDRs, separated by commas, that probes may not reach whatever else is said; beats --probe-allow; may be repeated", listed(&o.probeDeny))
	f.DurationVar(&o.freshnessWindow, "freshness-window", checker.DefaultFreshnessWindow, "how long a verdict spares the same unclear error another diagnosis; 0: not at all")
	f.Int64Var(&o.budgets.PerTenant, "daily-token-budget-per-tenant", 1_000_000, "tokens that a tenant's diagnoses may cost in a day (UTC); a typical one costs 5000; when they are used up, jobs close with the fallback; 0: no budget. The built-in diagnostician costs none")
	f.Int64Var(&o.budgets.All, "daily-token-budget", 10_000_000, "tokens that all diagnoses together may cost in a day (UTC); 0: no budget")
	f.IntVar(&o.perRow, "diagnoses-per-row-per-hour", 4, "how many diagnoses of a health row may begin within an hour, whoever asks and however many errors its tool has; one is kept for people who ask for a recheck, one for errors; further reports and requests join the newest; 0: as many as there are errors")
	f.IntVar(&o.diagnosisWorkers, "diagnosis-workers", 4, "how many diagnoses run at once, at most 128; each takes less than 1 MiB of memory while its model thinks, and up to 16 MiB while a large answer is read: raise the memory limit with it")
	f.DurationVar(&o.jobTTL, "job-ttl", time.Hour, "how long a closed DiagnosisJob is kept")
	f.DurationVar(&o.sessionTTL, "session-ttl", 24*time.Hour, "how long after its last write the ToolHealth of a session is kept; a runtime that tells when sessions end has it deleted at once")
	f.DurationVar(&o.userRowTTL, "user-row-ttl", 24*time.Hour, "how long after its last write the ToolHealth of a user is kept that says nothing but OK")
	f.DurationVar(&o.maxWait, "max-wait", health.MaxWait, "longest cooldown and recovery estimate, whatever a rule, an answer or a diagnosis asks for; at most 24h")
	f.IntVar(&o.maxRows, "max-rows", health.DefaultMaxRows, "how many ToolHealths a namespace may hold; further errors are answered but not stored")
	f.IntVar(&o.maxUnknownRows, "max-unknown-tool-rows", health.DefaultMaxUnknownToolRows, "how many of them may be about tools without a Tool")
}

// validate says what is wrong with the settings, and what to write instead.
func (o *options) validate() error {
	var problems []error
	if o.namespace == "" {
		problems = append(problems, errors.New("--namespace must name the operator's namespace"))
	}
	if o.apiAddress != "0" && o.apiAudience == "" {
		problems = append(problems, errors.New("--api-audience must name the audience of the callers' tokens: without one, a token for anything else would do"))
	}
	if o.diagnosisWorkers < 1 || o.diagnosisWorkers > maxWorkers {
		problems = append(problems, fmt.Errorf("--diagnosis-workers must be from 1 to %d, not %d", maxWorkers, o.diagnosisWorkers))
	}
	if o.leaderElect && (o.lease < leader.MinLease || o.lease > leader.MaxLease) {
		problems = append(problems, fmt.Errorf("--leader-elect-lease-duration must be from %s to %s, not %s", leader.MinLease, leader.MaxLease, o.lease))
	}
	if o.freshnessWindow < 0 {
		problems = append(problems, errors.New("--freshness-window must not be negative"))
	}
	if o.jobTTL < max(o.freshnessWindow, time.Minute) {
		problems = append(problems, fmt.Errorf("--job-ttl must be at least a minute and the --freshness-window: closed jobs tell what was diagnosed lately, and %s is too soon to delete them", o.jobTTL))
	}
	if o.sessionTTL < time.Minute || o.userRowTTL < time.Minute {
		problems = append(problems, errors.New("--session-ttl and --user-row-ttl must be at least 1m"))
	}
	if o.perRow < 0 || o.perRow > 60 {
		problems = append(problems, fmt.Errorf("--diagnoses-per-row-per-hour must be from 0, which is no limit, to 60, not %d", o.perRow))
	}
	if o.perRow > 0 && o.jobTTL < checker.StartSpan {
		problems = append(problems, fmt.Errorf("--job-ttl must be at least %s with --diagnoses-per-row-per-hour, which counts closed jobs: %s is too soon to delete them", checker.StartSpan, o.jobTTL))
	}
	if o.maxWait < time.Minute || o.maxWait > health.MaxWait {
		problems = append(problems, fmt.Errorf("--max-wait must be from 1m to %s, not %s", health.MaxWait, o.maxWait))
	}
	if o.maxRows < 1 || o.maxUnknownRows < 1 {
		problems = append(problems, errors.New("--max-rows and --max-unknown-tool-rows must be at least 1"))
	}
	for flag, tokens := range map[string]int64{"--daily-token-budget-per-tenant": o.budgets.PerTenant, "--daily-token-budget": o.budgets.All} {
		if tokens < 0 || tokens > budget.MaxLimit {
			problems = append(problems, fmt.Errorf("%s must be from 0, which is none, to %d, not %d", flag, int64(budget.MaxLimit), tokens))
		}
	}
	if u, err := url.Parse(o.modelEndpoint); o.models != "" && (err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http")) {
		problems = append(problems, errors.New("--model-endpoint must be an address such as https://models.example.com/v1"))
	}
	if _, err := o.guard(nil); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// guard returns where probes may go. The API server's addresses are none of it, unless they are allowed.
func (o *options) guard(apiServer []string) (probe.Guard, error) {
	allow, err := probe.ParsePrefixes(list(o.probeAllow))
	if err != nil {
		return probe.Guard{}, fmt.Errorf("--probe-allow: %w", err)
	}
	deny, err := probe.ParsePrefixes(list(o.probeDeny))
	if err != nil {
		return probe.Guard{}, fmt.Errorf("--probe-deny: %w", err)
	}
	server, err := probe.ParsePrefixes(apiServer)
	if err != nil {
		return probe.Guard{}, fmt.Errorf("addresses of the API server: %w", err)
	}
	return probe.Guard{Deny: deny, Allow: allow, APIServer: server}, nil
}

// addressesOf returns the addresses of the API server: where the manager reaches it, and where pods do.
func addressesOf(config *rest.Config) ([]string, error) {
	u, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	addresses, err := net.LookupHost(u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("find the API server, to keep probes away from it: %w", err)
	}
	if inCluster := os.Getenv("KUBERNETES_SERVICE_HOST"); net.ParseIP(inCluster) != nil {
		addresses = append(addresses, inCluster)
	}
	return addresses, nil
}

// listed collects the values of a flag that may be repeated.
func listed(values *string) func(string) error {
	return func(value string) error {
		*values = strings.TrimPrefix(*values+","+value, ",")
		return nil
	}
}

// list splits a list of values separated by commas.
func list(s string) []string {
	var values []string
	for value := range strings.SplitSeq(s, ",") {
		if value = strings.TrimSpace(value); value != "" {
			values = append(values, value)
		}
	}
	return values
}

// restConfig finds the API server.
func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, err
		}
		config.QPS = -1 // As below: the API server's priority and fairness limits us, not the client.
		return config, nil
	}
	return ctrl.GetConfig()
}
