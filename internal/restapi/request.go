package restapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// Verbs that callers need, on resources of ours in the project's namespace (docs/security.md). A report for the
// tenant or for everybody needs verbReport in the tenant's or the operator's namespace, too.
const (
	verbReport    = "create"            // on diagnosisjobs: reports, successes, rechecks
	verbForOthers = "report-for-others" // on diagnosisjobs: the same on behalf of another user
	verbEvents    = "report-events"     // on diagnosisjobs: connections and ends of sessions
	verbRead      = "get"               // on toolhealths
	resourceJobs  = "diagnosisjobs"
	resourceRows  = "toolhealths"
)

// readBody reads a JSON body.
func readBody(r *http.Request) ([]byte, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, problem(http.StatusUnsupportedMediaType, "content-type", "send the body as application/json")
	}
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, problem(http.StatusBadRequest, "body", "the body could not be read to its end")
	case !utf8.Valid(body):
		return nil, problem(http.StatusBadRequest, "utf-8", "the body is not valid UTF-8: replace what is not before you encode it as JSON")
	}
	return body, nil
}

// checkQuery refuses parameters that an operation does not know, as decode does fields: who writes ?usr=alice would be
// told of nobody's health. So would be who sends what cannot be decoded, and who names two users of only one of them.
func checkQuery(req *http.Request, r route) error {
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return invalid("query", "it cannot be read: percent-encode what each value holds (; as %%3B, & as %%26, %% as %%25)")
	}
	for name, values := range query {
		switch {
		case !slices.Contains(r.query, name) && len(r.query) == 0:
			return invalid("query", "there is no such parameter%s: all is said in the body", quoted(name))
		case !slices.Contains(r.query, name):
			return invalid("query", "there is no such parameter%s: use %s", quoted(name), strings.Join(r.query, ", "))
		case len(values) > 1 && name != r.list:
			return invalid(name, "is given %d times: give it once", len(values))
		}
	}
	return nil
}

// maxID and maxTool bound identifiers, in characters, as the schemas do.
const (
	maxID   = 256
	maxTool = 128
)

// toolName is what the schemas accept as a tool's name.
var toolName = regexp.MustCompile(`^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$`)

func invalid(field, format string, args ...any) error {
	return problem(http.StatusBadRequest, "invalid", "%s: %s", field, fmt.Sprintf(format, args...))
}

// checkTool says what is wrong with a tool's name.
func checkTool(field, name string) error {
	if utf8.RuneCountInString(name) > maxTool || !utf8.ValidString(name) || !toolName.MatchString(name) {
		return invalid(field, "must have 1 to %d characters, begin and end with a visible one and hold no control characters", maxTool)
	}
	return nil
}

// checkSignature says what is wrong with the signature of an error; empty: none is said.
func checkSignature(field string, signature v1alpha1.ErrorSignature) error {
	if signature != "" && !signature.Valid() {
		return invalid(field, "must be a signature as a verdict has it: 1 to 120 letters, digits, '-', '_' and '.', with a letter or digit at both ends")
	}
	return nil
}

func checkID(field, id string) error {
	if utf8.RuneCountInString(id) > maxID || !utf8.ValidString(id) {
		return invalid(field, "must have at most %d characters", maxID)
	}
	return nil
}

var localeTag = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`)

func checkLocale(locale string) error {
	if locale != "" && (len(locale) > 35 || !localeTag.MatchString(locale)) {
		return invalid("locale", "must be a language tag such as de or en-GB")
	}
	return nil
}

// scopeOf reads the widest scope that an outcome may have.
func scopeOf(field, value string) (v1alpha1.Scope, error) {
	scope := v1alpha1.Scope(value)
	if value == "" {
		scope = v1alpha1.ScopeProject
	}
	if scope.Width() < 0 {
		return "", invalid(field, "must be one of %v", v1alpha1.Scopes())
	}
	return scope, nil
}

// mayReport returns a problem unless a caller may report for a user and a scope in a project. It asks as the policies
// of config/policy do.
func (s *Server) mayReport(ctx context.Context, who Identity, project, user string, scope v1alpha1.Scope) error {
	if err := s.Access.Authorize(ctx, who, verbReport, resourceJobs, project); err != nil {
		return err
	}
	if user = tenancy.User(user); user != "" && user != who.Username {
		if err := s.Access.Authorize(ctx, who, verbForOthers, resourceJobs, project); err != nil {
			return err
		}
	}
	if scope != v1alpha1.ScopeTenant && scope != v1alpha1.ScopeGlobal {
		return nil
	}
	place, err := s.Checker.Place(ctx, project)
	if err != nil {
		return err
	}
	return s.Access.Authorize(ctx, who, verbReport, resourceJobs, place.Namespace(scope))
}

// requestID returns what identifies a report: what the caller says, so that a repeated request counts once, else
// something new. One key may stand for all that is told of a call, so what is told belongs to it: the operation, in which
// project, and the part of what one request tells.
func requestID(r *http.Request, who Identity, part any) string {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || len(key) > maxID {
		return string(uuid.NewUUID())
	}
	return tenancy.Hash12(fmt.Sprintf("%s\x00%s\x00%s\x00%s\x00%v", who.Username, r.Pattern, r.PathValue("project"), key, part))
}

// toolOf returns the tool that a request's path or query names.
func toolOf(r *http.Request) (string, error) {
	tool := r.PathValue("tool")
	if tool == "" {
		tool = r.URL.Query().Get("tool")
	}
	return tool, checkTool("tool", tool)
}
