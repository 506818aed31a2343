// Package health decides how a ToolHealth row changes, what its conditions are and what a caller is told, in
// pure functions; its Store is the one way by which rows are written.
package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// Writers, as lastDiagnosis.by and history name them (design §4); For adds who told the first two.
const (
	// BySuccess is a reported success.
	BySuccess = "agrajag-success"
	// ByEvent is a change of the connection to the tool.
	ByEvent = "agrajag-event"
	// byChecker and byEngine are followed by the rule or the job.
	byChecker = "agrajag-checker/"
	byEngine  = "agrajag-engine/"
)

// ByChecker is the checker that followed a rule.
func ByChecker(rule string) string { return byChecker + rule }

// ByEngine is the diagnosis of a job.
func ByEngine(job string) string { return byEngine + job }

// toldBy stands between a writer and who told it.
const toldBy = " for "

// For is a writer to whom somebody told something: a user of the API server. Nobody in particular: the writer alone.
func For(writer, who string) string {
	if who == "" {
		return writer
	}
	return writer + toldBy + who
}

// IsBy reports whether something was written by a writer, whoever told it.
func IsBy(by, writer string) bool {
	return by == writer || strings.HasPrefix(by, writer+toldBy)
}

// Key identifies a row and says where it is kept.
type Key struct {
	Namespace string
	Scope     v1alpha1.Scope
	ScopeID   string
	Tool      string
}

// KeyFor returns the row of a scope for a caller. ok is false if the caller has none: a USER row without a user,
// a SESSION row without a session.
func KeyFor(place tenancy.Place, scope v1alpha1.Scope, tool, user, session string) (key Key, ok bool) {
	key = Key{Namespace: place.Namespace(scope), Scope: scope, ScopeID: place.ScopeID(scope, user, session), Tool: tool}
	return key, key.ScopeID != "" || scope == v1alpha1.ScopeGlobal
}

// CallerKeys returns the rows that speak to a caller, from narrow to wide; at most five.
func CallerKeys(place tenancy.Place, tool, user, session string) []Key {
	keys := make([]Key, 0, len(v1alpha1.Scopes()))
	for _, scope := range v1alpha1.Scopes() {
		if key, ok := KeyFor(place, scope, tool, user, session); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// Name returns the name of the row's object.
func (k Key) Name() string { return tenancy.RowName(k.Scope, k.ScopeID, k.Tool) }

// String tells the row to a person.
func (k Key) String() string {
	return fmt.Sprintf("%s/%s (%s %s)", k.Namespace, k.Tool, k.Scope, k.ScopeID)
}

// spec returns the identity as the row's object holds it.
func (k Key) spec() v1alpha1.ToolHealthSpec {
	return v1alpha1.ToolHealthSpec{ToolName: v1alpha1.ToolName(k.Tool), Scope: k.Scope, ScopeID: k.ScopeID}
}

// KeyOf returns the identity of a row's object.
func KeyOf(row *v1alpha1.ToolHealth) Key {
	return Key{Namespace: row.Namespace, Scope: row.Spec.Scope, ScopeID: row.Spec.ScopeID, Tool: string(row.Spec.ToolName)}
}

// Change alters a row's status at an instant and reports whether it did. Changes are pure, and idempotent for
// each report: applied twice they leave what they left the first time.
type Change func(status *v1alpha1.ToolHealthStatus, now time.Time) bool

// All applies changes in order, as one.
func All(changes ...Change) Change {
	return func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		changed := false
		for _, change := range changes {
			changed = change(status, now) || changed
		}
		return changed
	}
}

// Finding is a state to be written, and why.
type Finding struct {
	State          v1alpha1.State
	Classification v1alpha1.Classification
	Signature      v1alpha1.ErrorSignature
	Note           string
	UserActionHint string
	// By is who found it.
	By string
	// Job is the diagnosis that found it, as namespace/name.
	Job string
	// Report identifies the report behind it. A finding of the same report is written once.
	Report string
	// RecoveryAt is when the tool is expected to work again; zero: unknown.
	RecoveryAt time.Time
}

// maxNote and maxHint bound lastDiagnosis (specification §5.3); history keeps v1alpha1.MaxNoteLength.
const (
	maxNote = 500
	maxHint = 200
)

// Mark writes a finding: state, diagnosis and a line of history. since moves only when the state changes.
func Mark(f Finding) Change {
	return func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		if last := status.LastDiagnosis; last != nil && f.Report != "" && last.Report == f.Report {
			return false
		}
		at := metav1.NewTime(now)
		if status.State != f.State || status.Since == nil {
			status.State, status.Since = f.State, &at
		}
		status.LastCheckedAt = &at
		status.ExpectedRecoveryAt = recovery(f, now)
		status.LastDiagnosis = &v1alpha1.HealthDiagnosis{
			Classification: f.Classification,
			ErrorSignature: f.Signature,
			Note:           text.Plain(f.Note, maxNote),
			UserActionHint: text.Plain(f.UserActionHint, maxHint),
			By:             text.Plain(f.By, 256),
			At:             at,
			Job:            f.Job,
			Report:         f.Report,
		}
		entry := v1alpha1.HealthHistoryEntry{
			At: at, Status: f.State, Classification: f.Classification, ErrorSignature: f.Signature,
			Note: text.Plain(f.Note, v1alpha1.MaxNoteLength), By: text.Plain(f.By, 256),
			ExpectedRecoveryAt: status.ExpectedRecoveryAt,
		}
		status.History = slices.Insert(status.History, 0, entry)
		status.History = status.History[:min(len(status.History), v1alpha1.MaxHistory)]
		return true
	}
}

// recovery returns a finding's estimate, if it is one: in the future and within MaxWait. A tool that works has
// nothing to recover from.
func recovery(f Finding, now time.Time) *metav1.Time {
	if f.State == v1alpha1.StateOK || !f.RecoveryAt.After(now) {
		return nil
	}
	at := f.RecoveryAt
	if latest := now.Add(MaxWait); at.After(latest) {
		at = latest
	}
	return &metav1.Time{Time: at}
}
