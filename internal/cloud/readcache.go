package cloud

import (
	"context"
	"maps"
	"sync"
)

// WithReadCache returns a context with a cache of reads, valid until the first write: a repeated read returns the cached
// answer. Use WithReadCache for a caller that reads, decides and acts once. A provider may ignore the cache.
func WithReadCache(ctx context.Context) context.Context {
	return context.WithValue(ctx, readCacheKey{}, &ReadCache{seen: map[string]any{}})
}

// ContinueReadCache returns a context with the cache of an earlier look. A caller that acts must read again before.
func ContinueReadCache(ctx context.Context, earlier *ReadCache) context.Context {
	return context.WithValue(ctx, readCacheKey{}, earlier)
}

// EnsureReadCache returns the context if it has a cache, else a context with a new cache.
func EnsureReadCache(ctx context.Context) context.Context {
	if ReadCacheOf(ctx) != nil {
		return ctx
	}
	return WithReadCache(ctx)
}

// WithoutReadCache returns a context without a cache, for reads that guard a write.
func WithoutReadCache(ctx context.Context) context.Context {
	return context.WithValue(ctx, readCacheKey{}, (*ReadCache)(nil))
}

// IsUncached reports whether the context is from WithoutReadCache. For providers that cache rarely changing data.
func IsUncached(ctx context.Context) bool {
	cache, set := ctx.Value(readCacheKey{}).(*ReadCache)
	return set && cache == nil
}

type readCacheKey struct{}

// ReadCacheOf returns the cache of the context; nil without a cache. For providers.
func ReadCacheOf(ctx context.Context) *ReadCache {
	cache, _ := ctx.Value(readCacheKey{}).(*ReadCache)
	return cache
}

// ReadCache is a cache of reads until the next write. A nil ReadCache caches nothing. ReadCache is safe for concurrent use.
type ReadCache struct {
	mu   sync.Mutex
	seen map[string]any // nil after a write
}

// Get returns the cached answer for the key.
func (s *ReadCache) Get(key string) (answer any, found bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, found = s.seen[key]
	return answer, found
}

// Put caches an answer, unless a write has happened meanwhile.
func (s *ReadCache) Put(key string, answer any) {
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
func (s *ReadCache) Copy() *ReadCache {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &ReadCache{seen: maps.Clone(s.seen)}
}

// IsInvalid reports whether a write has happened since the look began.
func (s *ReadCache) IsInvalid() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen == nil
}

// Invalidate clears the cache and disables it.
func (s *ReadCache) Invalidate() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = nil
}
