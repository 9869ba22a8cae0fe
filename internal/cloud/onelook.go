package cloud

import (
	"context"
	"maps"
	"sync"
)

// OneLook returns a context with a cache of reads, valid until the first write: a repeated read returns the cached
// answer. Use OneLook for a caller that reads, decides and acts once. A provider may ignore the cache.
func OneLook(ctx context.Context) context.Context {
	return context.WithValue(ctx, lookKey{}, &Sight{seen: map[string]any{}})
}

// ContinueLook returns a context with the cache of an earlier look. A caller that acts must read again before.
func ContinueLook(ctx context.Context, earlier *Sight) context.Context {
	return context.WithValue(ctx, lookKey{}, earlier)
}

// WithinLook returns the context if it has a cache, else a context with a new cache.
func WithinLook(ctx context.Context) context.Context {
	if SightOf(ctx) != nil {
		return ctx
	}
	return OneLook(ctx)
}

// Anew returns a context without a cache, for reads that guard a write.
func Anew(ctx context.Context) context.Context {
	return context.WithValue(ctx, lookKey{}, (*Sight)(nil))
}

// IsAnew reports whether the context is from Anew. For providers that cache rarely changing data.
func IsAnew(ctx context.Context) bool {
	sight, set := ctx.Value(lookKey{}).(*Sight)
	return set && sight == nil
}

type lookKey struct{}

// SightOf returns the cache of the context; nil without a cache. For providers.
func SightOf(ctx context.Context) *Sight {
	sight, _ := ctx.Value(lookKey{}).(*Sight)
	return sight
}

// Sight is a cache of reads until the next write. A nil Sight caches nothing. Sight is safe for concurrent use.
type Sight struct {
	mu   sync.Mutex
	seen map[string]any // nil after a write
}

// Seen returns the cached answer for the key.
func (s *Sight) Seen(key string) (answer any, found bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, found = s.seen[key]
	return answer, found
}

// Keep caches an answer, unless a write has happened meanwhile.
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

// Copy keeps what was read so far, also after writes under the look. Copy is for reads that the writes do not concern.
func (s *Sight) Copy() *Sight {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Sight{seen: maps.Clone(s.seen)}
}

// IsWritten reports whether a write has happened since the look began.
func (s *Sight) IsWritten() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen == nil
}

// Written clears the cache and disables it.
func (s *Sight) Written() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = nil
}
