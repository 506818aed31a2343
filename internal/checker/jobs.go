package checker

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// JobToolIndex is the cache's index of jobs by the tool that they are about.
const JobToolIndex = "spec.toolName"

// IndexJobTool is the indexer behind JobToolIndex.
func IndexJobTool(object client.Object) []string {
	return []string{string(object.(*v1alpha1.DiagnosisJob).Spec.ToolName)}
}

// jobs returns the jobs of the report's tool, other than the report's own. They are shared with the cache and
// must not be changed. Call is the one that the report is about, and so the one that they are about.
func (c *Checker) jobs(ctx context.Context, place tenancy.Place, r Report, call classify.Call) ([]jobFact, error) {
	var list v1alpha1.DiagnosisJobList
	if err := c.Cache.List(ctx, &list, client.InNamespace(r.Project), client.MatchingFields{JobToolIndex: r.Tool}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list jobs of tool %s: %w", r.Tool, err)
	}
	facts := make([]jobFact, 0, len(list.Items))
	for i := range list.Items {
		job := &list.Items[i]
		if r.Job != nil && job.UID == r.Job.UID || !job.DeletionTimestamp.IsZero() {
			continue
		}
		key, err := c.jobKey(ctx, place, job, call)
		if err != nil {
			return nil, err
		}
		facts = append(facts, jobFact{job: job, key: key})
	}
	return facts, nil
}

// jobKey returns the coalescing key of a job in a place.
func (c *Checker) jobKey(ctx context.Context, place tenancy.Place, job *v1alpha1.DiagnosisJob, call classify.Call) (tenancy.JobKey, error) {
	r := ReportOf(job)
	if job.Status.ErrorSignature != "" {
		return keyOf(place, r, job.Status.ErrorSignature), nil
	}
	if r.Trigger.IsRecheck() {
		return keyOf(place, r, v1alpha1.SignatureRecheck), nil
	}
	rules, err := c.Cascade.Rules(ctx, place)
	if err != nil {
		return tenancy.JobKey{}, err
	}
	return keyOf(place, r, c.signatures.of(job, rules, call)), nil
}

// maxSignatures bounds the jobs whose signature is remembered.
const maxSignatures = 16384

// signatures remembers what the rules say about jobs that nobody has decided yet. In an outage many wait, and each
// of them, and each report, looks at all the others.
type signatures struct {
	mu    sync.Mutex
	known map[types.UID]knownSignature
}

type knownSignature struct {
	generation int64
	rules      *classify.Rules
	call       classify.Call
	signature  v1alpha1.ErrorSignature
}

// of returns the signature of a job's error by the rules.
func (s *signatures) of(job *v1alpha1.DiagnosisJob, rules *classify.Rules, call classify.Call) v1alpha1.ErrorSignature {
	s.mu.Lock()
	known, ok := s.known[job.UID]
	s.mu.Unlock()
	if ok && known.generation == job.Generation && known.rules == rules && known.call == call {
		return known.signature
	}
	report := ReportOf(job)
	signature := rules.Classify(call, &report.Error, job.CreationTimestamp.Time).Signature // The time decides the wait alone.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxSignatures {
		s.known = map[types.UID]knownSignature{}
	}
	s.known[job.UID] = knownSignature{generation: job.Generation, rules: rules, call: call, signature: signature}
	return signature
}

// OpenJob is a job that waits or runs.
type OpenJob struct {
	Job *v1alpha1.DiagnosisJob
	Key tenancy.JobKey
}

// OpenJobs returns the other open jobs of a job's tool. They are shared and must not be changed.
func (c *Checker) OpenJobs(ctx context.Context, job *v1alpha1.DiagnosisJob) ([]OpenJob, error) {
	place, err := c.Place(ctx, job.Namespace)
	if err != nil {
		return nil, err
	}
	r := ReportOf(job)
	r.Job = job
	tool, err := registry.Find(ctx, c.Cache, r.Project, r.Tool)
	if err != nil {
		return nil, err
	}
	all, err := c.jobs(ctx, place, r, classify.Call{Tool: r.Tool, EndpointHost: registry.EndpointHost(tool)})
	var open []OpenJob
	for _, other := range all {
		if isOpen(other.job) {
			open = append(open, OpenJob{Job: other.job, Key: other.key})
		}
	}
	return open, err
}

// signal adds the report's message, which is news, to the job that stands for it. One optimistic try: a message that is lost
// is no loss worth a conflict.
func (c *Checker) signal(ctx context.Context, d Decision, f facts) error {
	job := f.job(func(other jobFact) bool { return other.job.Name == d.Job })
	next := job.DeepCopy()
	next.Status.Signals = append(next.Status.Signals, v1alpha1.JobSignal{At: metav1.NewTime(f.now), Message: signalMessage(f.report.Error)})
	patch := client.MergeFromWithOptions(job, client.MergeFromWithOptimisticLock{})
	err := c.Cache.Status().Patch(ctx, next, patch)
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	logf.FromContext(ctx).V(1).Info("Signal not added", "job", client.ObjectKeyFromObject(job), "reason", err.Error())
	return fmt.Errorf("add a message to job %s: %w", job.Name, err)
}

// isNews reports whether a message differs from all that an open job has heard so far.
func isNews(job *v1alpha1.DiagnosisJob, message string) bool {
	if message == "" || !isOpen(job) || len(job.Status.Signals) >= v1alpha1.MaxSignals {
		return false
	}
	if job.Spec.Error != nil && signalMessage(*job.Spec.Error) == message {
		return false
	}
	return !slices.ContainsFunc(job.Status.Signals, func(s v1alpha1.JobSignal) bool { return s.Message == message })
}

// signalMessage is what a report says, in one line.
func signalMessage(e v1alpha1.ToolError) string {
	if e.Message != "" {
		return text.Plain(e.Message, 300)
	}
	return text.Plain(e.Body, 300)
}

// MakeRoom deletes the closed job, if there is one, whose name a new one takes, and reports whether an open one has
// it. The name must be that of a fault. The precondition on its UID keeps two reporters from deleting each other's.
func (c *Checker) MakeRoom(ctx context.Context, from client.Reader, key client.ObjectKey) (open bool, err error) {
	former := &v1alpha1.DiagnosisJob{}
	if err := from.Get(ctx, key, former); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if isOpen(former) {
		return true, nil
	}
	err = c.Cache.Delete(ctx, former, client.Preconditions{UID: &former.UID})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	return false, err
}
