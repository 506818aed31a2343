package checker

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// reports counts answers. Its labels have as many values as there are outcomes and classifications.
var reports = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "agrajag_reports_total",
	Help: "Reports and rechecks that were answered, by webhook or REST, by outcome and classification. Of how many no model had to be asked: those that are not Pending.",
}, []string{"outcome", "classification"})

func init() { metrics.Registry.MustRegister(reports) }

// Answered counts a decision that a reporter was told.
func Answered(d Decision) { reports.WithLabelValues(string(d.Outcome), string(d.Class)).Inc() }
