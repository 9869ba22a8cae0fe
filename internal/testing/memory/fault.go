package memory

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Call is a call through a Faulty, as in cloud.Op. Calls without I/O (SameInstance, PoolName) are not counted.
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

// Apply makes a call with this fate. A crash panics with the value Crash.
func (o Outcome) Apply(call func() error) error {
	passes := !o.Crash && o.Err == nil
	var err error
	if o.After || passes {
		err = call()
	}
	switch {
	case o.Crash:
		panic(Crash)
	case passes:
		return err
	}
	return o.Err
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
	cloud.Provider
	inner  cloud.Versions
	inject func(Call) Outcome

	mu    sync.Mutex
	calls []Call
}

// Calls are all calls of a cloud. A *Cloud has them, a *Faulty, a cloud.Provider, and doubles that embed one of these and replace
// some calls.
type Calls interface {
	cloud.Machines
	cloud.Pools
	cloud.TrialBuilder
	cloud.WorkshopBuilder
	cloud.DiskCopier
	cloud.Versions
}

// Provider returns the provider with these calls.
func Provider(calls Calls) cloud.Provider {
	return cloud.Provider{Machines: calls, Pools: calls, TrialBuilder: calls, WorkshopBuilder: calls, DiskCopier: calls, Versions: calls}
}

// NewFaulty wraps a cloud with inject. A nil inject passes and counts all calls.
func NewFaulty(calls Calls, inject func(Call) Outcome) *Faulty {
	f := &Faulty{inner: calls, inject: inject}
	f.Provider = cloud.Intercept(Provider(calls), f.intercept)
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

func (f *Faulty) next(op cloud.Op) Outcome {
	f.mu.Lock()
	call := Call{Index: len(f.calls), Op: op.Name, Resource: op.Resource, Writes: op.Writes}
	f.calls = append(f.calls, call)
	inject := f.inject
	f.mu.Unlock()
	if inject == nil {
		return Pass()
	}
	return inject(call)
}

// cached are the reads that a cloud.WithReadCache caches, as with real providers.
var cached = map[string]bool{
	opInstance: true, opInstances: true, opProtection: true, opSnapshot: true, opImage: true, opImages: true, opPool: true, opRecipeChange: true, opTrial: true,
	opWorkshop: true, opCopy: true,
}

// answer is a cached result.
type answer struct {
	result reflect.Value
	err    error
}

// intercept answers from the read cache, or makes a call that may be lost.
func (f *Faulty) intercept(ctx context.Context, op cloud.Op, call func(context.Context) error) error {
	cache, key := cloud.ReadCacheOf(ctx), op.Name+" "+op.Resource
	if known, found := cache.Get(key); found && cached[op.Name] {
		reflect.ValueOf(op.Result).Elem().Set(known.(answer).result)
		return known.(answer).err
	}
	if op.Writes {
		cache.Invalidate()
	}
	err := f.lossy(ctx, op, call)
	switch {
	case cached[op.Name] && (err == nil || cloud.Is(err, cloud.NotFound)):
		cache.Put(key, answer{reflect.ValueOf(op.Result).Elem(), err})
	case op.Name == opPoolsInScope && cache != nil && err == nil:
		for _, id := range *op.Result.(*[]cloud.PoolID) { // the list contains the recipes
			if pool, err := f.inner.Pool(ctx, id); err == nil {
				cache.Put(opPool+" "+string(id), answer{result: reflect.ValueOf(pool)})
			}
		}
	}
	return err
}

func (f *Faulty) lossy(ctx context.Context, op cloud.Op, call func(context.Context) error) error {
	outcome := f.next(op)
	outcome.Err = attributed(outcome.Err, op)
	return outcome.Apply(func() error { return call(ctx) })
}

// attributed returns a copy of an injected error with the operation and the resource of the call.
func attributed(err error, op cloud.Op) error {
	var e *cloud.Error
	if !errors.As(err, &e) || e.Op != "" {
		return err
	}
	known := *e
	known.Op, known.Resource = phrase(op.Name), op.Resource
	return &known
}
