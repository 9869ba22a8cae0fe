package memory

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// staleFor is the longest time for which a Stale gives an old answer.
const staleFor = 30 * time.Second

// staleReads are the reads that a Stale answers from the past. The resource of such a read says all that was asked for.
var staleReads = []string{
	opInstance, opInstances, opProtection, opSnapshot, opImage, opImages, opPool, opRecipeChange, opTrial, opWorkshop, opCopy,
}

// Stale is a provider of a cloud whose copies differ after a change: for up to 30 seconds, reads have the answer from before. What was
// just made is not found, and what was just deleted is still there. The seed draws which changes are late and for how long, and
// whether reads alternate between old and new. Writes always meet the true state. Stale is safe for concurrent use.
type Stale struct {
	cloud.Provider
	now func() time.Time

	mu sync.Mutex
	// random is nil before a draw: all answers are true.
	random *rand.Rand
	// late of ten changes are late.
	late       int
	alternates bool
	known      map[string]*staleRead
	served     []string
}

// staleRead is a read that was made before.
type staleRead struct {
	again func(context.Context) error
	into  reflect.Value
	// seen is the last true answer. Until the time, reads have the old answer.
	seen, old answer
	until     time.Time
}

// NewStale wraps a cloud. All answers are true before Draw.
func NewStale(calls Calls, now func() time.Time) *Stale {
	s := &Stale{now: now, known: map[string]*staleRead{}}
	s.Provider = cloud.Intercept(Provider(calls), s.intercept)
	return s
}

// Draw begins old answers by a seed.
func (s *Stale) Draw(seed uint64) {
	s.random = rand.New(rand.NewPCG(seed, 30))
	s.late, s.alternates = 2+s.random.IntN(9), s.random.IntN(2) == 0
}

// Served returns a text for each old answer so far.
func (s *Stale) Served() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.served)
}

// Schedules yields the seeds of so many schedules, from 1. KAMINO_SCHEDULES sets another number.
func Schedules(t *testing.T, schedules int) iter.Seq[uint64] {
	t.Helper()
	if text := os.Getenv("KAMINO_SCHEDULES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("KAMINO_SCHEDULES=%s is not a number", text)
		}
		schedules = n
	}
	t.Logf("%d schedules", schedules)
	return func(yield func(uint64) bool) {
		for seed := range schedules {
			if !yield(uint64(seed + 1)) {
				return
			}
		}
	}
}

// Seeds plays schedules as parallel tests, each named by its seed.
func Seeds(t *testing.T, schedules int, play func(t *testing.T, seed uint64)) {
	t.Helper()
	for seed := range Schedules(t, schedules) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			play(t, seed)
		})
	}
}

func (s *Stale) intercept(ctx context.Context, op cloud.Op, call func(context.Context) error) error {
	if s.random == nil {
		return call(ctx)
	}
	if op.Writes {
		s.delayAll()
		err := call(ctx)
		s.delayAll()
		return err
	}
	if !slices.Contains(staleReads, op.Name) {
		return call(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := op.Name + " " + op.Resource
	read := s.known[key]
	if read == nil {
		read = &staleRead{again: call, into: reflect.ValueOf(op.Result).Elem()}
		read.seen = read.look()
		s.known[key] = read
		return read.seen.err
	}
	s.delay(read)
	given := read.seen
	if s.now().Before(read.until) && (!s.alternates || s.random.IntN(2) == 0) {
		given = read.old
		s.served = append(s.served, fmt.Sprintf("%s %s: %+v, %v", s.now().Format(time.TimeOnly), key, given.result, given.err))
	}
	reflect.ValueOf(op.Result).Elem().Set(given.result)
	return given.err
}

// delayAll notices the changes of all known reads.
func (s *Stale) delayAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.known)) {
		s.delay(s.known[key])
	}
}

// delay draws whether a change since the last look is late.
func (s *Stale) delay(r *staleRead) {
	before, now := r.seen, s.now()
	r.seen = r.look()
	isSame := reflect.DeepEqual(before.result.Interface(), r.seen.result.Interface()) && (before.err == nil) == (r.seen.err == nil)
	if !isSame && !now.Before(r.until) && s.random.IntN(10) < s.late {
		r.old, r.until = before, now.Add(time.Duration(1+s.random.Int64N(int64(staleFor))))
	}
}

// look returns the true answer.
func (r *staleRead) look() answer {
	err := r.again(context.Background())
	result := reflect.New(r.into.Type()).Elem()
	result.Set(r.into)
	return answer{result, err}
}
