package memory

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Call is a call through a Faulty. Calls without I/O (SameInstance, PoolName) are not counted.
type Call struct {
	// Index counts from 0.
	Index int
	// Op is the method's name.
	Op string
	// Resource is the object of the call: an instance or pool ID, a snapshot's name, or a version.
	Resource string
	// Writes is true if the call can change something.
	Writes bool
}

// Outcome is the fate of a call. The zero value passes the call.
type Outcome struct {
	// Err replaces the call's own result, unless nil.
	Err error
	// Crash ends the process: the call panics with the value Crash.
	Crash bool
	// After lets the call take effect first.
	After bool
}

type crash struct{}

// Crash is the panic value of a crashed call. RunUntilCrash recovers it.
var Crash any = crash{}

// Pass passes the call.
func Pass() Outcome { return Outcome{} }

// FailBefore loses the request: nothing is done.
func FailBefore(kind cloud.Kind) Outcome { return Outcome{Err: injected(kind)} }

// FailAfter loses the answer: the call takes effect, but the caller gets an error.
func FailAfter(kind cloud.Kind) Outcome { return Outcome{Err: injected(kind), After: true} }

// CrashBefore ends the process before the call.
func CrashBefore() Outcome { return Outcome{Crash: true} }

// CrashAfter ends the process after the call.
func CrashAfter() Outcome { return Outcome{Crash: true, After: true} }

// Throttle throttles the call with a delay for the retry.
func Throttle(after time.Duration) Outcome {
	return Outcome{Err: &cloud.Error{
		Kind: cloud.Throttled, Code: "TooManyRequests", Message: "injected: too many requests", RetryAfter: after,
	}}
}

func injected(kind cloud.Kind) error {
	return &cloud.Error{Kind: kind, Code: "Injected", Message: "injected fault"}
}

// RunUntilCrash calls run and reports whether run ended by Crash. Other panics continue.
func RunUntilCrash(run func()) (crashed bool) {
	defer func() {
		r := recover()
		if _, crashed = r.(crash); !crashed && r != nil {
			panic(r)
		}
	}()
	run()
	return false
}

// Faulty is a provider that loses calls. Faulty is safe for concurrent use if Inject is.
type Faulty struct {
	losingTrials
	provider cloud.Provider
	inject   func(Call) Outcome

	mu    sync.Mutex
	calls []Call
}

var (
	_ cloud.Decorator         = (*Faulty)(nil)
	_ cloud.InstanceLister    = (*Faulty)(nil)
	_ cloud.PermissionChecker = (*Faulty)(nil)
	_ cloud.Rebuilder         = (*Faulty)(nil)
	_ cloud.SnapshotLister    = (*Faulty)(nil)
	_ cloud.PoolFinder        = (*Faulty)(nil)
	_ cloud.Remover           = (*Faulty)(nil)
	_ cloud.TrialRunner       = (*Faulty)(nil)
)

// NewFaulty wraps a provider with inject. A nil inject passes and counts all calls.
func NewFaulty(provider cloud.Provider, inject func(Call) Outcome) *Faulty {
	f := &Faulty{provider: provider}
	f.losingTrials = losingTrials{f}
	f.Inject(inject)
	return f
}

// Inject replaces the function that decides about calls; nil passes all. The count continues.
func (f *Faulty) Inject(inject func(Call) Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inject = inject
}

// Calls returns all calls so far, lost or not.
func (f *Faulty) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

func (f *Faulty) next(op, resource string, writes bool) Outcome {
	f.mu.Lock()
	call := Call{Index: len(f.calls), Op: op, Resource: resource, Writes: writes}
	f.calls = append(f.calls, call)
	inject := f.inject
	f.mu.Unlock()
	if inject == nil {
		return Pass()
	}
	return inject(call)
}

// kind of a call: a write, a read, or a read that is cached in a cloud.WithReadCache, as real providers do.
type kind int

const (
	looks kind = iota
	looksOnce
	writes
)

func through[T any](ctx context.Context, f *Faulty, op, resource string, of kind, do func() (T, error)) (T, error) {
	cache, key := cloud.ReadCacheOf(ctx), op+" "+resource
	if answer, found := cache.Get(key); found && of == looksOnce {
		return answer.(kept[T]).result, answer.(kept[T]).err
	}
	if of == writes {
		cache.Invalidate()
	}
	result, err := lossy(f, op, resource, of == writes, do)
	if of == looksOnce && (err == nil || cloud.Is(err, cloud.NotFound)) {
		cache.Put(key, kept[T]{result, err})
	}
	return result, err
}

// kept is a cached answer.
type kept[T any] struct {
	result T
	err    error
}

func lossy[T any](f *Faulty, op, resource string, writes bool, do func() (T, error)) (T, error) {
	outcome := f.next(op, resource, writes)
	var result T
	var err error
	passes := !outcome.Crash && outcome.Err == nil
	if outcome.After || passes {
		result, err = do()
	}
	switch {
	case outcome.Crash:
		panic(Crash)
	case passes:
		return result, err
	}
	var zero T
	return zero, attributed(outcome.Err, op, resource)
}

// attributed returns a copy of an injected error with the operation and the resource of the call.
func attributed(err error, op, resource string) error {
	var e *cloud.Error
	if !errors.As(err, &e) || e.Op != "" {
		return err
	}
	known := *e
	known.Op, known.Resource = phrases[op], resource
	return &known
}

func alone(do func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, do() }
}
