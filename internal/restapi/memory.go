package restapi

import (
	"sync"
	"time"
)

// memory remembers answers, at most maxRemembered of them. The zero value is empty.
type memory[K comparable, V any] struct {
	mu      sync.RWMutex
	answers map[K]remembrance[V]
}

type remembrance[V any] struct {
	value V
	at    time.Time
}

// get returns an answer and its age.
func (m *memory[K, V]) get(key K, now time.Time) (value V, age time.Duration, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, ok := m.answers[key]
	return r.value, now.Sub(r.at), ok
}

// put remembers an answer. Where there is no room any other goes: it is asked for again.
func (m *memory[K, V]) put(key K, value V, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers == nil {
		m.answers = map[K]remembrance[V]{}
	}
	if _, have := m.answers[key]; !have && len(m.answers) >= maxRemembered {
		for k := range m.answers {
			delete(m.answers, k)
			break
		}
	}
	m.answers[key] = remembrance[V]{value: value, at: now}
}

// answers remembers what was granted apart from what was refused: refusals without end, as of made-up tokens, crowd out
// nothing that was granted.
type answers[K comparable, V any] struct {
	granted, refused memory[K, V]
	// grants tells which answers grant something.
	grants func(V) bool
}

// get returns the younger answer and its age.
func (a *answers[K, V]) get(key K, now time.Time) (value V, age time.Duration, ok bool) {
	value, age, ok = a.granted.get(key, now)
	if refusal, since, refused := a.refused.get(key, now); refused && (!ok || since <= age) {
		return refusal, since, true
	}
	return value, age, ok
}

// put remembers an answer.
func (a *answers[K, V]) put(key K, value V, now time.Time) {
	if a.grants(value) {
		a.granted.put(key, value, now)
	} else {
		a.refused.put(key, value, now)
	}
}
