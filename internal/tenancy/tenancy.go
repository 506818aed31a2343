// Package tenancy knows which namespace stands for which project, tenant or operator, and derives from an
// identity the one name that its object has there.
package tenancy

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

const (
	// TenantLabel on a project's namespace names the namespace of its tenant. Setting it needs the verb join on
	// tenants.tools.agrajag.dev there (config/policy).
	TenantLabel = "tools.agrajag.dev/tenant"
	// SystemUser is the placeholder for "no human owner" (specification §7). It is no user.
	SystemUser = "_system"
	// ClientToolPrefix begins the names of tools that live in the user's client and end with the session.
	ClientToolPrefix = "client_"
)

// Place is where the objects of one project are kept.
type Place struct {
	// Project is the project's namespace, where errors are reported.
	Project string
	// Tenant is the namespace of the project's tenant; the project itself if it belongs to none.
	Tenant string
	// Operator is the operator's own namespace, for what concerns everybody.
	Operator string
}

// PlaceOf derives a project's place from its namespace object.
func PlaceOf(project *corev1.Namespace, operatorNamespace string) Place {
	tenant := project.Labels[TenantLabel]
	if tenant == "" {
		tenant = project.Name
	}
	return Place{Project: project.Name, Tenant: tenant, Operator: operatorNamespace}
}

// HasTenant reports whether the project belongs to a tenant other than itself.
func (p Place) HasTenant() bool { return p.Tenant != p.Project }

// Namespace returns where rows of a scope are kept.
func (p Place) Namespace(scope v1alpha1.Scope) string {
	switch scope {
	case v1alpha1.ScopeTenant:
		return p.Tenant
	case v1alpha1.ScopeGlobal:
		return p.Operator
	default:
		return p.Project
	}
}

// ScopeID returns the identity within a scope: the session of a user, the user or the namespace. It is never taken from a
// report. Empty for GLOBAL, and for SESSION or USER where there is no session or user.
func (p Place) ScopeID(scope v1alpha1.Scope, user, session string) string {
	switch scope {
	case v1alpha1.ScopeSession:
		return SessionID(session, user)
	case v1alpha1.ScopeUser:
		return User(user)
	case v1alpha1.ScopeProject:
		return p.Project
	case v1alpha1.ScopeTenant:
		return p.Tenant
	default:
		return ""
	}
}

// ownedSession matches what ends as the id of somebody's session.
var ownedSession = regexp.MustCompile(`@[0-9a-f]{12}$`)

// SessionID returns the identity of a session, which is that of one user: whoever may not report for the user does not get
// at it, by whatever name. A session of nobody is known by its own name, unless that looks like somebody's.
func SessionID(session, user string) string {
	if user = User(user); session == "" || user == "" && !ownedSession.MatchString(session) {
		return session
	}
	return session + "@" + Hash12(user)
}

// SessionOf returns the session's own name from what SessionID returned.
func SessionOf(id string) string { return ownedSession.ReplaceAllString(id, "") }

// User returns the user's id, or "" where the id stands for nobody.
func User(id string) string {
	if id == SystemUser {
		return ""
	}
	return id
}

// IsClientTool reports whether the tool lives in the user's client.
func IsClientTool(tool string) bool { return strings.HasPrefix(tool, ClientToolPrefix) }

// Hash12 returns the first 12 hex digits of the SHA-256 of s. Credential Secrets are named by it; a person gets
// it with: printf %s alice | sha256sum | cut -c1-12. Sessions are marked with it.
func Hash12(s string) string { return hash(12, s) }

// hash returns the first n hex digits of a SHA-256 over the parts, each of which keeps its borders.
func hash(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:n]
}

// hashedName matches names that could be taken for one that RowName made.
var hashedName = regexp.MustCompile(`-[0-9a-f]{10}$`)

// RowName returns the name of the ToolHealth of an identity: the tool's own name where that is a valid object
// name and the scope PROJECT, so that people can guess it; else a slug and a hash of the identity. A tool name
// that itself looks hashed is always hashed, so that no tool can take the row of another.
func RowName(scope v1alpha1.Scope, scopeID, tool string) string {
	if scope == v1alpha1.ScopeProject && len(validation.IsDNS1123Subdomain(tool)) == 0 && !hashedName.MatchString(tool) {
		return tool
	}
	return slug(tool) + "-" + hash(10, string(scope), scopeID, tool)
}

// JobKey is the coalescing key of specification §8.2: what it says alike is one fault, met by one user.
type JobKey struct {
	Scope     v1alpha1.Scope
	ScopeID   string
	Tool      string
	Signature v1alpha1.ErrorSignature
	User      string
}

// OfAnybody returns the key without the user: what it says alike is one fault, whoever met it.
func (k JobKey) OfAnybody() JobKey {
	k.User = ""
	return k
}

// serviceType is the first part of the coalescing key. There is one service engine today.
const serviceType = "agrajag"

// Name returns the name that a job with this key has unless its creator chose one, or a job of that name still counts.
func (k JobKey) Name() string { return k.NameOf(0) }

// NameOf returns the further names of such jobs, from 1 on; the one of 0 is Name.
func (k JobKey) NameOf(n int) string {
	parts := []string{serviceType, string(k.Scope), k.ScopeID, k.Tool, string(k.Signature), k.User}
	if n > 0 {
		parts = append(parts, strconv.Itoa(n))
	}
	return "diag-" + slug(k.Tool) + "-" + hash(16, parts...)
}

// maxSlug keeps every derived name below 63 characters, so that it also fits into a label.
const maxSlug = 40

// slug turns a tool name into a part of an object name that people recognise.
func slug(tool string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(tool) {
		if b.Len() == maxSlug {
			break
		}
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	if s := strings.TrimRight(b.String(), "-"); s != "" {
		return s
	}
	return "tool"
}
