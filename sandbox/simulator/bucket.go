package simulator

import (
	"sync"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
)

// Buckets are the rate limits of a cloud: a token bucket for each name, filled at the pace of the sandbox's clock. The zero
// value's clock is the wall's.
type Buckets struct {
	Clock clock.Clock

	mu   sync.Mutex
	name map[string]*bucket
}

type bucket struct {
	tokens float64
	filled time.Time
	ahead  time.Duration // in real time, when the bucket was filled
}

// Take takes a token from the named bucket of at most burst tokens, with rate new tokens in a simulated second. Take returns
// the remaining tokens, or the simulated time until the next token.
func (s *Buckets) Take(name string, burst, rate float64) (left int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	ahead := s.Clock.At(now).Sub(now)
	if s.name == nil {
		s.name = map[string]*bucket{}
	}
	b := s.name[name]
	if b == nil {
		b = &bucket{tokens: burst, filled: now, ahead: ahead}
		s.name[name] = b
	}
	scale := s.Clock.Scale
	if scale <= 0 {
		scale = 1
	}
	passed := now.Sub(b.filled).Seconds()*scale + (ahead - b.ahead).Seconds()
	b.tokens = min(burst, b.tokens+passed*rate)
	b.filled, b.ahead = now, ahead
	if b.tokens < 1 {
		return 0, time.Duration((1 - b.tokens) / rate * float64(time.Second))
	}
	b.tokens--
	return int(b.tokens), 0
}
