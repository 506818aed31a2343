package controller

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// The labels have as many values as there are reasons and kinds: none is what a stranger wrote.
var (
	jobsClosed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agrajag_jobs_closed_total",
		Help: "DiagnosisJobs that were closed, by close reason and by the reason of the condition Complete.",
	}, []string{"close_reason", "reason"})
	diagnosisSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "agrajag_diagnosis_duration_seconds",
		Help:    "Seconds from the beginning to the end of diagnoses, the wait for a retry included.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600},
	})
	modelCalls = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "agrajag_model_calls_total",
		Help: "Calls of a model by diagnoses that have ended.",
	})
	modelTokens = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agrajag_model_tokens_total",
		Help: "Tokens that diagnoses which have ended cost, by kind: prompt or completion.",
	}, []string{"kind"})
)

func init() { metrics.Registry.MustRegister(jobsClosed, diagnosisSeconds, modelCalls, modelTokens) }

// countClosed counts a job that was closed, and what it cost. A counter that is to go down panics.
func countClosed(job *v1alpha1.DiagnosisJob, reason string) {
	jobsClosed.WithLabelValues(string(job.Status.CloseReason), reason).Inc()
	if began := job.Status.StartedAt; began != nil {
		diagnosisSeconds.Observe(job.Status.ClosedAt.Sub(began.Time).Seconds())
	}
	if cost := job.Status.Usage; cost != nil {
		modelCalls.Add(float64(max(cost.Turns, 0)))
		modelTokens.WithLabelValues("prompt").Add(float64(max(cost.PromptTokens, 0)))
		modelTokens.WithLabelValues("completion").Add(float64(max(cost.CompletionTokens, 0)))
	}
}
