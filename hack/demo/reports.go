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

// reportOnce reports an HTTP status as the agent runtime does from Go, and returns why it was refused; empty: it
// became a job.
func (s *stage) reportOnce(ctx context.Context, tool string, code int32) (string, error) {
	if s.reporter == nil {
		config, err := s.env.User(agent)
		if err != nil {
			return "", err
		}
		if s.reporter, err = client.New(config, client.Options{Scheme: s.env.Scheme}); err != nil {
			return "", err
		}
	}
	err := s.reporter.Create(ctx, &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "report-"},
		Spec:       v1alpha1.DiagnosisJobSpec{ToolName: v1alpha1.ToolName(tool), Error: &v1alpha1.ToolError{HTTPStatus: &code}},
	})
	var refusal apierrors.APIStatus
	switch {
	case err == nil:
		return "", nil
	case !errors.As(err, &refusal):
		return "", fmt.Errorf("report an error: %w", err)
	}
	for _, cause := range refusal.Status().Details.Causes {
		if cause.Type == "Outcome" {
			return cause.Message, nil
		}
	}
	return string(refusal.Status().Reason), nil
}
