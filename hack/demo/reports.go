package main

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// reportOnce reports an HTTP status as the agent runtime does from Go. It returns the job that was created, or the
// outcome where the report was answered without one.
func (s *stage) reportOnce(ctx context.Context, tool string, code int32) (job, outcome string, err error) {
	if s.reporter == nil {
		config, err := s.env.User(agent)
		if err != nil {
			return "", "", err
		}
		if s.reporter, err = client.New(config, client.Options{Scheme: s.env.Scheme}); err != nil {
			return "", "", err
		}
	}
	report := &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "report-"},
		Spec:       v1alpha1.DiagnosisJobSpec{ToolName: v1alpha1.ToolName(tool), Error: &v1alpha1.ToolError{HTTPStatus: &code}},
	}
	err = s.reporter.Create(ctx, report)
	var refusal apierrors.APIStatus
	switch {
	case err == nil:
		return report.Name, "", nil
	case !errors.As(err, &refusal) || refusal.Status().Details == nil:
		return "", "", fmt.Errorf("report an error: %w", err)
	}
	for _, cause := range refusal.Status().Details.Causes {
		if cause.Type == "Outcome" {
			return "", cause.Message, nil
		}
	}
	return "", string(refusal.Status().Reason), nil
}
