package restapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

const (
	// freshFor is how long an answer of the API server about a caller counts: so long a withdrawn right still holds.
	freshFor = 10 * time.Second
	// staleFor is how long it counts while the API server cannot be asked, so that verdicts go on.
	staleFor = 5 * time.Minute
	// restFor is how long nothing is asked that is known, after the API server did not answer: else each request of an
	// outage would wait for it again.
	restFor = 5 * time.Second
	// maxRemembered bounds the callers, and the rights, that are remembered.
	maxRemembered = 8192
	// maxToken bounds a bearer token, in bytes.
	maxToken = 16 << 10
	// askWithin bounds one question to the API server.
	askWithin = 2 * time.Second
	// maxStrangers bounds the requests that wait until it is known whose token they bring: made-up tokens cost nothing, and
	// while the API server hangs each of them waits. Known callers need none of these places.
	maxStrangers = maxInFlight / 4
)

// DefaultAudience is the audience that a token must be for, so that no token for something else opens this API.
const DefaultAudience = "agrajag"

// Identity is who calls.
type Identity struct {
	authenticationv1.UserInfo
	// token identifies the token in what is remembered.
	token [sha256.Size]byte
}

// right is what a caller asks for.
type right struct {
	token                     [sha256.Size]byte
	verb, resource, namespace string
}

// Access asks the API server who callers are (TokenReview) and what they may do (SubjectAccessReview), and remembers
// the answers for a moment. It is safe for concurrent use.
type Access struct {
	client   client.Client
	audience string
	clock    clock.PassiveClock
	callers  answers[[sha256.Size]byte, Identity]
	rights   answers[right, bool]
	asking   singleflight.Group
	// strangers holds a place for each request of a caller who is not known.
	strangers chan struct{}
	// restUntil is until when what is known counts unasked, in nanoseconds since 1970.
	restUntil atomic.Int64
}

// NewAccess returns an Access that accepts tokens for an audience.
func NewAccess(c client.Client, audience string, clock clock.PassiveClock) *Access {
	return &Access{
		client: c, audience: audience, clock: clock, strangers: make(chan struct{}, maxStrangers),
		callers: answers[[sha256.Size]byte, Identity]{grants: func(who Identity) bool { return who.Username != "" }},
		rights:  answers[right, bool]{grants: func(allowed bool) bool { return allowed }},
	}
}

// errNobody says that a token is nobody's.
var errNobody = problem(http.StatusUnauthorized, "unauthorized", "the bearer token is not valid for this API: it may have expired, or be meant for another audience")

// Authenticate returns who sends a request. The identity is never taken from anything but the token.
func (a *Access) Authenticate(r *http.Request) (Identity, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Identity{}, problem(http.StatusUnauthorized, "unauthorized", "send Authorization: Bearer TOKEN, with a token for the audience %s (kubectl create token NAME --audience=%s)", a.audience, a.audience)
	}
	if len(token) > maxToken {
		return Identity{}, errNobody
	}
	key := sha256.Sum256([]byte(token))
	if !a.isKnown(key) {
		select {
		case a.strangers <- struct{}{}:
			defer func() { <-a.strangers }()
		default:
			return Identity{}, problem(http.StatusTooManyRequests, "busy", "more than %d requests of callers who are not known yet: try again in a second", maxStrangers)
		}
	}
	who, err := remembered(r.Context(), a, &a.callers, key, "token "+string(key[:]), func(ctx context.Context) (Identity, error) { return a.review(ctx, token, key) })
	if err == nil && who.Username == "" {
		return Identity{}, errNobody
	}
	return who, err
}

// isKnown reports whether a caller is answered without being asked about, or was somebody the last time: one whose token
// was refused is a stranger again as soon as that is to be asked anew.
func (a *Access) isKnown(key [sha256.Size]byte) bool {
	who, age, ok := a.callers.get(key, a.clock.Now())
	return ok && (age < freshFor || who.Username != "" && age < staleFor)
}

// review asks whose token it is. An Identity without a name: nobody's.
func (a *Access) review(ctx context.Context, token string, key [sha256.Size]byte) (Identity, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{a.audience}}}
	if err := a.client.Create(ctx, review); err != nil {
		return Identity{}, fmt.Errorf("review a token: %w", err)
	}
	if !review.Status.Authenticated || !contains(review.Status.Audiences, a.audience) {
		return Identity{}, nil
	}
	return Identity{UserInfo: review.Status.User, token: key}, nil
}

func contains(list []string, value string) bool {
	for _, have := range list {
		if have == value {
			return true
		}
	}
	return false
}

// Authorize returns a problem unless the caller has a verb on a resource of ours in a namespace.
func (a *Access) Authorize(ctx context.Context, who Identity, verb, resource, namespace string) error {
	key := right{token: who.token, verb: verb, resource: resource, namespace: namespace}
	name := fmt.Sprintf("right %s %s %s %s", key.token[:], verb, resource, namespace)
	allowed, err := remembered(ctx, a, &a.rights, key, name, func(ctx context.Context) (bool, error) { return a.ask(ctx, who, key) })
	if err != nil {
		return err
	}
	if !allowed {
		return problem(http.StatusForbidden, "forbidden", "%s needs the verb %s on %s.%s in namespace %s", who.Username, verb, resource, v1alpha1.GroupVersion.Group, namespace)
	}
	return nil
}

// ask asks the API server for one right.
func (a *Access) ask(ctx context.Context, who Identity, key right) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(who.Extra))
	for name, values := range who.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: key.namespace, Verb: key.verb, Group: v1alpha1.GroupVersion.Group, Version: "*", Resource: key.resource,
		},
	}}
	if err := a.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// remembered returns a fresh answer, or asks for one. While nobody can be asked an older one counts.
func remembered[K comparable, V any](ctx context.Context, a *Access, m *answers[K, V], key K, name string, ask func(context.Context) (V, error)) (V, error) {
	now := a.clock.Now()
	known, age, ok := m.get(key, now)
	if ok && (age < freshFor || age < staleFor && now.UnixNano() < a.restUntil.Load()) {
		return known, nil
	}
	value, err, _ := a.asking.Do(name, func() (any, error) {
		// Not the caller's context alone: others wait for the same answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
		defer cancel()
		return ask(ctx)
	})
	var refused *problemError
	switch {
	case err == nil:
		m.put(key, value.(V), now)
		return value.(V), nil
	case ok && age < staleFor && !errors.As(err, &refused):
		a.restUntil.Store(now.Add(restFor).UnixNano())
		return known, nil
	default:
		return known, err
	}
}
