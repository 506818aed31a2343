package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// maxReview bounds one question of the API server, in bytes: it takes objects of 3 MiB at most, and puts little around them.
const maxReview = 7 << 20

// maxExpected bounds for how much of a question that is announced room is made before it comes: that of a large report.
const maxExpected = 256 << 10

// reviewVersion is the version of the API server's questions, as config/webhook asks for them.
var reviewVersion = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// question is what we read of the API server's question about a report: the report itself in one pass. The library's way
// reads the whole question, and then the report in it, four times each.
type question struct {
	UID       types.UID             `json:"uid"`
	Name      string                `json:"name"`
	Namespace string                `json:"namespace"`
	Operation admissionv1.Operation `json:"operation"`
	DryRun    *bool                 `json:"dryRun"`
	Object    v1alpha1.DiagnosisJob `json:"object"`
}

// asServed reads what the API server has read and written itself: what it let pass is no mistake here.
var asServed = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
	jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(readError)))

// Serve answers the API server's questions about reports with a handler, which finds the report decoded.
func Serve(handler admission.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := buffers.Get().(*bytes.Buffer)
		defer giveBack(body)
		body.Grow(int(min(max(r.ContentLength, 0), maxExpected)) + bytes.MinRead)
		if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxReview)); err != nil {
			http.Error(w, "the question could not be read to its end", http.StatusBadRequest)
			return
		}
		req, err := read(body.Bytes())
		if req.UID == "" {
			http.Error(w, "no AdmissionReview with a request", http.StatusBadRequest)
			return
		}
		var response admission.Response
		if err != nil {
			response = undecoded(r.Context(), err)
		} else {
			response = handler.Handle(r.Context(), req)
		}
		if err := complete(&response, req); err != nil { // A patch that cannot be encoded: the reconciler does it.
			logf.FromContext(r.Context()).Error(err, "Let through unread")
			response = admission.Allowed("")
			response.UID = req.UID
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: reviewVersion, Response: &response.AdmissionResponse})
	})
}

// buffers keep the memory of questions that were answered: nothing of an answer refers to it.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// giveBack keeps a buffer for another question, unless it is far larger than most need.
func giveBack(b *bytes.Buffer) {
	const most = 256 << 10
	if b.Cap() <= most {
		b.Reset()
		buffers.Put(b)
	}
}

// operation is one change of a JSON patch (RFC 6902).
type operation struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	// Value points to what is put there, which may be null; nil where something is removed.
	Value *any `json:"value,omitzero"`
}

// complete makes an answer fit to be sent. The library's way reads what it has written of each change once more.
func complete(response *admission.Response, req admission.Request) error {
	if len(response.Patches) > 0 {
		operations := make([]operation, len(response.Patches))
		for i := range response.Patches {
			o := &response.Patches[i]
			operations[i] = operation{Op: o.Operation, Path: o.Path}
			if o.Operation != "remove" {
				operations[i].Value = &o.Value
			}
		}
		patch, err := jsonv2.Marshal(operations)
		if err != nil {
			return fmt.Errorf("encode the patch: %w", err)
		}
		response.Patch, response.PatchType, response.Patches = patch, ptr.To(admissionv1.PatchTypeJSONPatch), nil
	}
	return response.Complete(req)
}

// read reads a question. With an error the report in it cannot be read; without a UID there is no question.
func read(data []byte) (admission.Request, error) {
	var review struct {
		Request *question `json:"request"`
	}
	if err := jsonv2.Unmarshal(data, &review, asServed); err != nil {
		var bare struct {
			Request struct {
				UID types.UID `json:"uid"`
			} `json:"request"`
		}
		_ = json.Unmarshal(data, &bare) // What cannot be read at all has no UID.
		return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: bare.Request.UID}}, err
	}
	q := review.Request
	if q == nil {
		return admission.Request{}, errors.New("there is no request")
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: q.UID, Name: q.Name, Namespace: q.Namespace,
		Operation: q.Operation, DryRun: q.DryRun, Object: runtime.RawExtension{Object: &q.Object}}}, nil
}

// reportIn returns the report that a request is about, which is the caller's to change.
func reportIn(req admission.Request, decoder admission.Decoder) (*v1alpha1.DiagnosisJob, error) {
	job, ok := req.Object.Object.(*v1alpha1.DiagnosisJob)
	if !ok {
		job = &v1alpha1.DiagnosisJob{}
		if err := decoder.Decode(req, job); err != nil {
			return nil, err
		}
	}
	job.Namespace = req.Namespace
	return job, nil
}

// replaced takes the long texts out of two reports that are to be compared, and returns how they differ: encoding and
// decoding all of them would say no more. A text that one of the two does not have stays.
func replaced(former, now *v1alpha1.ToolError) []jsonpatch.Operation {
	if former == nil || now == nil {
		return nil
	}
	var patch []jsonpatch.Operation
	for _, field := range []struct {
		path          string
		before, after *string
	}{{"/spec/error/body", &former.Body, &now.Body}, {"/spec/error/message", &former.Message, &now.Message}} {
		if *field.before == "" || *field.after == "" {
			continue
		}
		if *field.before != *field.after {
			patch = append(patch, jsonpatch.NewOperation("replace", field.path, *field.after))
		}
		*field.before, *field.after = "", ""
	}
	return patch
}
