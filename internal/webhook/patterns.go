package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// JudgePath is where the API server finds the webhook that judges rules (config/webhook).
const JudgePath = "/judge-patterns"

const (
	// maxFieldErrors bounds the mistakes that a refusal names.
	maxFieldErrors = 20
	// maxWarnings bounds the warnings, and maxWarning each of them in bytes: the API server cuts longer ones.
	maxWarnings = 10
	maxWarning  = 256
)

// Judge refuses sets of rules that hold a mistake, so that what is stored stays as it was, and warns of rules that
// do not do what their author expects. Like the other webhooks it is no gate: what got in while it was away is
// skipped entry by entry.
type Judge struct {
	Checker *checker.Checker
	Decoder admission.Decoder
}

// Handle judges an ErrorPatternSet that the schema has accepted. Who changes anything but the rules is not held up by
// mistakes in them.
func (j *Judge) Handle(ctx context.Context, req admission.Request) (response admission.Response) {
	defer letThrough(ctx, &response)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	set, former := &v1alpha1.ErrorPatternSet{}, &v1alpha1.ErrorPatternSet{}
	if err := j.Decoder.Decode(req, set); err != nil {
		return undecoded(ctx, err)
	}
	set.Namespace = req.Namespace
	if req.Operation == admissionv1.Update {
		err := j.Decoder.DecodeRaw(req.OldObject, former)
		if err == nil && equality.Semantic.DeepEqual(set.Spec, former.Spec) {
			return admission.Allowed("")
		}
	}
	if problems := classify.ValidateList(set.Spec.Patterns); len(problems) > 0 {
		return invalid(set, problems)
	}
	warnings, err := j.warnings(ctx, set)
	if err != nil { // The reconciler will say the same in the set's status.
		logf.FromContext(ctx).Error(err, "Rules not compared with the others", "set", set.Namespace+"/"+set.Name)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// invalid tells mistakes as the API server tells those that the schema finds: by field.
func invalid(set *v1alpha1.ErrorPatternSet, problems []classify.Problem) admission.Response {
	var list field.ErrorList
	for _, problem := range problems[:min(len(problems), maxFieldErrors)] {
		list = append(list, &field.Error{Type: field.ErrorTypeInvalid, Field: problem.Path, BadValue: field.OmitValueType{}, Detail: problem.Message})
	}
	if more := len(problems) - len(list); more > 0 {
		list = append(list, &field.Error{Type: field.ErrorTypeInvalid, Field: "spec.patterns", BadValue: field.OmitValueType{}, Detail: fmt.Sprintf("and %d more", more)})
	}
	status := apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("ErrorPatternSet").GroupKind(), set.Name, list).Status()
	status.Code = http.StatusUnprocessableEntity
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &status}}
}

// warnings says which rules of the place would not be in force, or never be reached, once the set is stored.
func (j *Judge) warnings(ctx context.Context, set *v1alpha1.ErrorPatternSet) ([]string, error) {
	place, err := j.Checker.Place(ctx, set.Namespace)
	if err != nil {
		return nil, err
	}
	_, known, err := j.Checker.Cascade.Compiled(ctx, place)
	if err != nil {
		return nil, err
	}
	rules, problems, err := j.Checker.Cascade.CompiledWith(ctx, place, set)
	if err != nil {
		return nil, err
	}
	own := set.Namespace + "/" + set.Name
	var all []string
	for _, problem := range problems {
		// Of the other sets' problems those that this set makes.
		if problem.Set == own || !slices.Contains(known, problem) {
			all = append(all, problem.String())
		}
	}
	for _, problem := range rules.Impossible() {
		if problem.Set == own {
			all = append(all, problem.String())
		}
	}
	for _, shadow := range rules.Shadows() {
		if shadow.Entry.Set == own || shadow.By.Set == own {
			all = append(all, shadow.String())
		}
	}
	return bounded(all), nil
}

// bounded keeps warnings few and short.
func bounded(all []string) []string {
	if more := len(all) - maxWarnings; more > 0 {
		all = append(all[:maxWarnings-1:maxWarnings-1], fmt.Sprintf("and %d more", more+1))
	}
	for i := range all {
		all[i] = text.Plain(all[i], maxWarning)
	}
	return all
}
