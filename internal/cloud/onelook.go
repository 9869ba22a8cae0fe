package cloud

import (
	"context"
	"maps"
	"sync"
)

// OneLook makes one look of all reads under the context, up to the first write: what was read stands for whoever
// asks the same again. It is for somebody who looks, decides and does one thing at once, and whose act would
// otherwise ask again what was just answered. A provider may ignore it.
func OneLook(ctx context.Context) context.Context {
	return context.WithValue(ctx, lookKey{}, &Sight{seen: map[string]any{}})
}

// ContinueLook makes the reads under the context part of an earlier look. A caller that acts looks again first.
func ContinueLook(ctx context.Context, earlier *Sight) context.Context {
	return context.WithValue(ctx, lookKey{}, earlier)
}

// WithinLook is the context if its reads are of one look already, and one of a new look otherwise.
func WithinLook(ctx context.Context) context.Context {
	if SightOf(ctx) != nil {
		return ctx
	}
	return OneLook(ctx)
}

// Anew has the reads under the context asked of the cloud itself, for a look that guards a write.
func Anew(ctx context.Context) context.Context {
	return context.WithValue(ctx, lookKey{}, (*Sight)(nil))
}

// IsAnew tells whether the reads under the context guard a write. It is for providers that remember what seldom changes.
func IsAnew(ctx context.Context) bool {
	sight, set := ctx.Value(lookKey{}).(*Sight)
	return set && sight == nil
}

type lookKey struct{}

// SightOf is what was read under the context; nil if each read is one of its own. It is for providers.
func SightOf(ctx context.Context) *Sight {
	sight, _ := ctx.Value(lookKey{}).(*Sight)
	return sight
}

// Sight keeps what was read, until something is written. A nil one keeps nothing. It is safe for concurrent use.
type Sight struct {
	mu   sync.Mutex
	seen map[string]any // nil once something was written
}

// Seen is what was kept under the key.
func (s *Sight) Seen(key string) (answer any, found bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, found = s.seen[key]
	return answer, found
}

// Keep keeps an answer, unless something was written meanwhile.
func (s *Sight) Keep(key string, answer any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil {
		s.seen[key] = answer
	}
}

// Copy keeps what was read so far, whatever is written under the look from now on. It is for reads that the write does not concern.
func (s *Sight) Copy() *Sight {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Sight{seen: maps.Clone(s.seen)}
}

// IsWritten reports whether something was written since the look began.
func (s *Sight) IsWritten() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen == nil
}

// Written ends the look: from now on nothing is kept.
func (s *Sight) Written() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = nil
}
